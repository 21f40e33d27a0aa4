"""What GPUs cost as a caller may see it: prices of an hour, and the roll-up beside list price."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Max, Q, QuerySet, Sum

from controlplane.decisions.gpu_costs import OwnCostKind
from controlplane.models import AuditEntry, GpuPrice, Organisation, OwnCost, Pool
from controlplane.selectors.access import Access

GROUPS: Mapping[str, str] = {
    "pool": "pool_id",
    "team": "team_id",
    "project": "project_id",
    "model": "model_id",
}
"""What own cost is told by, and the column of each."""

_MILLION = 1_000_000


def list_gpu_prices(access: Access) -> QuerySet[GpuPrice]:
    """Prices of an hour, of organisations the caller has a role in."""
    return access.visible(GpuPrice.objects.all())


@dataclass(slots=True)
class Gpus:
    """What the GPUs of a pool are; None is not said."""

    gpu_type: str | None
    capacity_class: str | None
    gpus_per_worker: int


_GPU_FIELDS = tuple(one.name for one in fields(Gpus))


def get_gpus_at(pools: Iterable[Pool], at: datetime) -> Mapping[str, Gpus]:
    """What the pools' GPUs were at a moment: as they are, with the edits since taken back."""
    found = {pool.pk: Gpus(*(getattr(pool, name) for name in _GPU_FIELDS)) for pool in pools}
    since = AuditEntry.objects.filter(
        noun="pools", object_id__in=sorted(found), at__gt=at, before__has_any_keys=_GPU_FIELDS
    )
    for entry in since.order_by("-id"):
        for name in _GPU_FIELDS:
            if name in entry.before:
                setattr(found[entry.object_id], name, entry.before[name])
    return found


@dataclass(frozen=True, slots=True)
class CostLine:
    """One group's part; `kind` says whether anybody used it. None is a cost nobody knows.

    `own_nanousd` and `list_nanousd` are of the same requests and never added up.
    """

    kind: str
    value: str
    gpu_seconds: float
    tokens: int
    attempts: int
    own_nanousd: int | None
    list_nanousd: int | None

    @property
    def own_nanousd_per_mtok(self) -> int | None:
        """Own cost of a million tokens of work."""
        if self.own_nanousd is None or not self.tokens:
            return None
        return round(self.own_nanousd * _MILLION / self.tokens)


@dataclass(frozen=True, slots=True)
class OwnCosts:
    """The lines of a time, and up to when it is computed."""

    lines: Sequence[CostLine]
    computed_at: datetime | None


def get_own_costs(
    access: Access, organisation: Organisation, *, since: datetime, until: datetime, group: str
) -> OwnCosts:
    """What the hours that began in [since, until) cost, by one of GROUPS; idle time has its line.

    A pool's idle time is its own; by anything else all idle time is one line.
    """
    rows = access.visible_organisation_wide(
        OwnCost.objects.filter(organisation_id=organisation.pk, hour__gte=since, hour__lt=until)
    )
    sums: Any = (
        rows.values("kind", value=F(GROUPS[group]))
        .annotate(
            seconds=Sum("gpu_seconds"),
            total_tokens=Sum("tokens"),
            total_attempts=Sum("attempts"),
            own=Sum("own_nanousd"),
            unknown=Count("pool_id", filter=Q(own_nanousd__isnull=True)),
            booked=Sum("list_nanousd"),
            without=Sum("unpriced"),
        )
        .order_by("kind", "value")
    )
    lines = [_line(row) for row in sums]
    computed = rows.aggregate(at=Max("computed_at"))["at"]
    return OwnCosts(sorted(lines, key=_rank), computed)


def _line(row: Mapping[str, Any]) -> CostLine:
    is_work = row["kind"] == OwnCostKind.WORK.value
    # a sum that leaves some out would pass for the whole
    own = None if row["unknown"] else int(row["own"])
    is_unpriced = row["without"] and not row["booked"]
    return CostLine(
        kind=row["kind"],
        value=row["value"],
        gpu_seconds=float(row["seconds"]),
        tokens=int(row["total_tokens"]),
        attempts=int(row["total_attempts"]),
        own_nanousd=own,
        list_nanousd=int(row["booked"]) if is_work and not is_unpriced else None,
    )


def _rank(line: CostLine) -> tuple[int, float, str]:
    kinds = [OwnCostKind.WORK.value, OwnCostKind.UNATTRIBUTED.value, OwnCostKind.IDLE.value]
    return kinds.index(line.kind), -line.gpu_seconds, line.value

"""A database that was put back to an older copy becomes the one truth by a lineage of its own.

Gateways and the state store keep the newest configuration they have seen, whatever the database
says; only a greater lineage makes them take an older one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils import timezone

from controlplane.decisions.epochs import Position, Restarts, adopted_position
from controlplane.identifiers import new_ulid
from controlplane.models import ConfigRevision, GatewaySetting, Pool
from controlplane.services import audit, rows, snapshots
from controlplane.services.actors import Actor
from controlplane.services.pool_workers import grown
from controlplane.services.usage import expect_marks

INSTALLATION = "installation"


@dataclass(frozen=True, slots=True)
class Adopted:
    """What came of it: the version, and how many events of the former ledger this one lacks yet."""

    revision: ConfigRevision
    missing_events: int


def adopt_configuration(
    actor: Actor,
    *,
    known: Iterable[Position],
    reached: Mapping[str, int],
    restarts: Restarts,
    reason: str,
) -> Adopted:
    """Begin a lineage greater than all that is known, with the configuration the rows have.

    `known` are positions that store and gateways hold; `reached` says up to where the store takes
    each journal to be recorded, and `restarts` which counts were acted on, under which no row's
    stays. It is one transaction with one audit entry, and published when it
    commits. Raises ProblemsFound if the rows are no valid configuration on this host.
    """
    actor = replace(actor, reason=reason)
    with snapshots.configuration_edit():
        positions = ConfigRevision.objects.order_by("-id").values_list("lineage", "version")
        held = positions.first()
        raised = {"gateways": _raise_gateways(restarts), "pools": _raise_pools(restarts)}
        ours = [] if held is None else [(str(held[0]), int(held[1]))]
        position = adopted_position(new_ulid(), [*ours, *known])
        revision = snapshots.stage_at(actor, reason, position)
        missing = expect_marks(reached, timezone.now())
        audit.record(
            actor,
            action="adopt",
            noun="snapshots",
            object_id=INSTALLATION,
            organisation_id=None,
            before={"lineage": held[0], "version": held[1]} if held else None,
            after={
                "lineage": revision.lineage,
                "version": revision.version,
                "missing_events": missing,
                "raised": raised,
            },
        )
    return Adopted(revision, missing)


def _raise_gateways(restarts: Restarts) -> dict[str, Any]:
    """Bring gateways' counts up to what they are at; returns those that were less, as they are."""
    held = {row.name: row for row in GatewaySetting.objects.select_for_update()}
    raised: dict[str, Any] = {}
    for name, generation in sorted(restarts.gateways.items()):
        row = held.get(name)
        if generation <= (0 if row is None else row.restart_generation):
            continue
        if row is None:
            rows.insert(GatewaySetting(name=name, restart_generation=generation))
        else:
            rows.change(row, {"restart_generation": generation})
        raised[name] = generation
    return raised


def _raise_pools(restarts: Restarts) -> dict[str, Any]:
    """The same for pools and their workers."""
    told = restarts.pools or {}
    raised: dict[str, Any] = {}
    for row in Pool.objects.select_for_update().filter(pk__in=list(told)).order_by("pk"):
        counts = told[row.pk]
        values = {
            "restart_generation": max(row.restart_generation, counts.generation),
            "worker_restarts": grown(row.worker_restarts, counts.workers),
        }
        if rows.change(row, values) is not None:
            raised[row.pk] = values
    return raised

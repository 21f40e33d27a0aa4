"""A route's targets in forms and pictures: rows of pool and weight, and the shares they come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Field, Widget
from django.http import QueryDict

from controlplane.console.diffs import shown
from inference.contract.params import MAX_WEIGHT, TARGET_BOUNDS

TIMEOUT_LABELS: Mapping[str, str] = {
    "connect_timeout_ms": "Connecting",
    "first_byte_timeout_ms": "First token",
    "idle_timeout_ms": "Between tokens",
    "total_timeout_ms": "Whole attempt",
}
"""What a target may bound by itself, in the order of an attempt."""

ROUTES_OWN = "the route's"
_COUNT = "targets-count"
_MOST = 100


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of the form as it stands: what was chosen and typed, whether sound or not."""

    index: int
    pool: str
    weight: str
    timeouts: Mapping[str, str] = field(default_factory=dict)

    @property
    def times(self) -> Sequence[tuple[str, str, str]]:
        """Its time-outs as controls: name, label, what was typed."""
        return [
            (name, label, self.timeouts.get(name, "")) for name, label in TIMEOUT_LABELS.items()
        ]

    @property
    def has_times(self) -> bool:
        return any(self.timeouts.values())


class TargetsWidget(Widget):
    """Reads the rows of the page's own template; rows without a pool and weight are left out."""

    def value_from_datadict(self, data: QueryDict, files: Any, name: str) -> Any:
        return [row for row in rows_of(data) if row.pool or row.weight]

    def value_omitted_from_data(self, data: QueryDict, files: Any, name: str) -> bool:
        return _COUNT not in data


class TargetsField(Field):
    """Its value is a list of `{"pool": id, "weight": n, <time-out>: ms or None}`, in order."""

    widget = TargetsWidget

    def clean(self, value: Any) -> list[dict[str, Any]]:
        rows: Sequence[TargetRow] = value or ()
        if not rows:
            raise ValidationError("A route needs at least one target.")
        found = []
        for row in rows:
            problem = problem_with(row)
            if problem:
                raise ValidationError(f"Target {row.index + 1}: {problem}")
            times = {name: int(text) if text else None for name, _, text in row.times}
            found.append({"pool": row.pool, "weight": int(row.weight), **times})
        if len({one["pool"] for one in found}) < len(found):
            raise ValidationError("The route has a pool twice.")
        return found


def rows_of(data: QueryDict) -> Sequence[TargetRow]:
    """The rows a page sent."""
    given = str(data.get(_COUNT, ""))
    rows = min(int(given), _MOST) if given.isascii() and given.isdigit() and len(given) < 4 else 0
    return [
        TargetRow(
            index,
            str(data.get(f"targets-{index}-pool", "")).strip(),
            str(data.get(f"targets-{index}-weight", "")).strip(),
            {name: str(data.get(f"targets-{index}-{name}", "")).strip() for name in TIMEOUT_LABELS},
        )
        for index in range(rows)
    ]


def problem_with(row: TargetRow) -> str:
    """What is wrong with a row in words, "" if nothing."""
    if not row.pool:
        return "choose a pool, or empty the weight."
    is_number = row.weight.isascii() and row.weight.isdigit() and len(row.weight) < 8
    if not is_number or int(row.weight) > MAX_WEIGHT:
        return f"give a whole weight from 0 to {MAX_WEIGHT:,}."
    for name, label, text in row.times:
        is_number = text.isascii() and text.isdigit() and len(text) < 12
        if text and (not is_number or TARGET_BOUNDS[name].problem_with(int(text))):
            bound = TARGET_BOUNDS[name]
            return (
                f"{label.lower()} takes whole ms from {bound.minimum:,} to {bound.maximum:,}, or "
                "nothing."
            )
    return ""


def row_of(index: int, target: Mapping[str, Any]) -> TargetRow:
    """A saved target as a row of the form."""
    times = {name: target.get(name) for name in TIMEOUT_LABELS}
    typed = {name: "" if value is None else str(value) for name, value in times.items()}
    return TargetRow(index, target["pool"], str(target["weight"]), typed)


def times_of(target: object) -> dict[str, int | None]:
    """A target row's time-outs, None for the route's."""
    return {name: getattr(target, name) for name in TIMEOUT_LABELS}


def has_times(target: object) -> bool:
    """Whether a target row has a time-out of its own."""
    return any(value is not None for value in times_of(target).values())


def times_told(times: Mapping[str, Any]) -> str:
    """The time-outs that are a target's own, in words."""
    own = [
        f"{label.lower()} {shown(name, times[name])}"
        for name, label in TIMEOUT_LABELS.items()
        if times.get(name) is not None
    ]
    return ", ".join(own) or ROUTES_OWN


def shares_of(targets: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each pool's share of the requests by weight, as fractions of 1, in order."""
    total = sum(int(one["weight"]) for one in targets)
    return {one["pool"]: int(one["weight"]) / total if total else 0.0 for one in targets}


def measured_of(attempts: Mapping[str, int]) -> dict[str, float]:
    """Each pool's share of the attempts that were made; empty if there were none."""
    total = sum(attempts.values())
    return {pool: made / total for pool, made in attempts.items()} if total else {}


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The fraction of traffic that goes elsewhere between two splits."""
    pools = {*before, *after}
    return sum(abs(after.get(one, 0.0) - before.get(one, 0.0)) for one in pools) / 2


def told(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.1f} %"

"""Targets in forms and pictures: rows of pool, weight and tier, and the shares they come to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Field, Widget
from django.http import QueryDict

from controlplane.console.diffs import shown
from inference.contract.params import MAX_TIERS, MAX_WEIGHT, TARGET_BOUNDS

TIMEOUT_LABELS: Mapping[str, str] = {
    "connect_timeout_ms": "Connecting",
    "first_byte_timeout_ms": "First token",
    "idle_timeout_ms": "Between tokens",
    "total_timeout_ms": "Whole attempt",
}
"""What a target may bound by itself, in the order of an attempt."""

ROUTES_OWN = "the route's"
OWN = "targets"
"""What the names of the controls of a route's own targets begin with."""

_MOST = 100

Target = Mapping[str, Any]
Place = tuple[str, int]
"""A pool in a tier: what tells the targets of one list apart."""


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of the form as it stands: what was chosen and typed, whether sound or not."""

    index: int
    pool: str
    weight: str
    timeouts: Mapping[str, str] = field(default_factory=dict)
    tier: str = "0"
    of: str = OWN

    @property
    def prefix(self) -> str:
        """What the names of its controls begin with."""
        return f"{self.of}-{self.index}"

    @property
    def number(self) -> int:
        return self.index + 1

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
        return filled(rows_of(data))

    def value_omitted_from_data(self, data: QueryDict, files: Any, name: str) -> bool:
        return f"{OWN}-count" not in data


class TargetsField(Field):
    """Its value is a list of `{"pool": id, "weight": n, "tier": n, <time-out>: ms or None}`."""

    widget = TargetsWidget

    def clean(self, value: Any) -> list[dict[str, Any]]:
        rows: Sequence[TargetRow] = value or ()
        if not rows:
            raise ValidationError("A route needs at least one target.")
        found, problem = cleaned(rows)
        if problem:
            raise ValidationError(problem)
        return found


def filled(rows: Sequence[TargetRow]) -> list[TargetRow]:
    """The rows with anything in them."""
    return [row for row in rows if row.pool or row.weight]


def cleaned(rows: Sequence[TargetRow]) -> tuple[list[dict[str, Any]], str]:
    """What rows come to, and what is wrong with them in words, "" if nothing."""
    found: list[dict[str, Any]] = []
    for row in rows:
        problem = problem_with(row)
        if problem:
            return [], f"Target {row.number}: {problem}"
        times = {name: int(text) if text else None for name, _, text in row.times}
        tier = int(row.tier or 0)
        found.append({"pool": row.pool, "weight": int(row.weight), "tier": tier, **times})
    if len({place_of(one) for one in found}) < len(found):
        return [], "The route has a pool twice."
    return found, ""


def rows_of(data: QueryDict, of: str = OWN) -> Sequence[TargetRow]:
    """The rows a page sent of one list."""
    return [
        TargetRow(
            index,
            typed(data, f"{of}-{index}-pool"),
            typed(data, f"{of}-{index}-weight"),
            {name: typed(data, f"{of}-{index}-{name}") for name in TIMEOUT_LABELS},
            typed(data, f"{of}-{index}-tier") or "0",
            of,
        )
        for index in range(counted(data, of))
    ]


def counted(data: QueryDict, of: str) -> int:
    """How many rows a page says it has of a list."""
    given = str(data.get(f"{of}-count", ""))
    return min(int(given), _MOST) if given.isascii() and given.isdigit() and len(given) < 4 else 0


def typed(data: QueryDict, name: str) -> str:
    """What was typed into a control."""
    return str(data.get(name, "")).strip()


def problem_with(row: TargetRow) -> str:
    """What is wrong with a row in words, "" if nothing."""
    if not row.pool:
        return "choose a pool, or empty the weight."
    if not _is_whole(row.weight, MAX_WEIGHT):
        return f"give a whole weight from 0 to {MAX_WEIGHT:,}."
    if not _is_whole(row.tier, MAX_TIERS - 1):
        return f"give a tier from 0 to {MAX_TIERS - 1}."
    for name, label, text in row.times:
        is_number = text.isascii() and text.isdigit() and len(text) < 12
        if text and (not is_number or TARGET_BOUNDS[name].problem_with(int(text))):
            bound = TARGET_BOUNDS[name]
            return (
                f"{label.lower()} takes whole ms from {bound.minimum:,} to {bound.maximum:,}, or "
                "nothing."
            )
    return ""


def _is_whole(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8 and int(text) <= most


def row_of(index: int, target: Target, of: str = OWN) -> TargetRow:
    """A saved target as a row of the form."""
    times = {name: target.get(name) for name in TIMEOUT_LABELS}
    texts = {name: "" if value is None else str(value) for name, value in times.items()}
    tier = str(target.get("tier", 0))
    return TargetRow(index, target["pool"], str(target["weight"]), texts, tier, of)


def place_of(target: Target) -> Place:
    """What tells a target from the others of its list."""
    return target["pool"], target.get("tier") or 0


def times_of_own(target: Target) -> str:
    """A target's own time-outs as an addition to a sentence, "" if it has none."""
    words = times_told(target)
    return "" if words == ROUTES_OWN else f", {words}"


def as_listed(targets: Iterable[Any]) -> list[dict[str, Any]]:
    """Rows of targets as the form's values."""
    return [
        {"pool": one.pool_id, "weight": one.weight, "tier": one.tier, **times_of(one)}
        for one in targets
    ]


def times_of(target: object) -> dict[str, int | None]:
    """A target row's time-outs, None for the route's."""
    return {name: getattr(target, name) for name in TIMEOUT_LABELS}


def has_own_times(target: Target) -> bool:
    """Whether a target has a time-out of its own."""
    return any(target.get(name) is not None for name in TIMEOUT_LABELS)


def times_told(times: Mapping[str, Any]) -> str:
    """The time-outs that are a target's own, in words."""
    own = [
        f"{label.lower()} {shown(name, times[name])}"
        for name, label in TIMEOUT_LABELS.items()
        if times.get(name) is not None
    ]
    return ", ".join(own) or ROUTES_OWN


def shares_of(targets: Sequence[Target]) -> dict[str, float]:
    """Each pool's share by weight of what comes while the first tier can serve; in order."""
    first = min((place_of(one)[1] for one in targets), default=0)
    shares = shares_in_tiers(targets)
    return {place[0]: share for place, share in shares.items() if place[1] == first}


def shares_in_tiers(targets: Sequence[Target]) -> dict[Place, float]:
    """Each target's share of the requests that its tier gets, as fractions of 1, in order."""
    totals: dict[int, int] = {}
    for one in targets:
        totals[place_of(one)[1]] = totals.get(place_of(one)[1], 0) + int(one["weight"])
    return {
        place_of(one): int(one["weight"]) / total if (total := totals[place_of(one)[1]]) else 0.0
        for one in targets
    }


def tier_words(tier: int) -> str:
    """A tier as people call it."""
    return "first choice" if tier == 0 else f"fallback {tier}"


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

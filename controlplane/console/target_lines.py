"""How two lists of a route's targets differ, in lines of a review."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.console.diffs import Line, shown
from controlplane.console.targets import (
    ROUTES_OWN,
    TIMEOUT_LABELS,
    place_of,
    shares_in_tiers,
    told,
)

Place = tuple[str, int]
LabelOf = Callable[[Place], str]


def target_lines(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], label_of: LabelOf
) -> Sequence[Line]:
    """A line for each weight and time-out that differs; or one for the order of the targets."""
    before, after = weights_told(old), weights_told(new)
    lines = [
        Line(f"Weight, {label_of(place)}", before.get(place), after.get(place))
        for place in dict.fromkeys((*before, *after))
        if before.get(place) != after.get(place)
    ]
    was, now = ({place_of(one): one for one in side} for side in (old, new))
    for place in dict.fromkeys((*was, *now)):
        lines += _time_lines(label_of(place), was.get(place, {}), now.get(place, {}))
    if not lines:
        sides = [", ".join(map(label_of, side)) for side in (before, after)]
        lines.append(Line("Order of targets", *sides))
    return lines


def _time_lines(target: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[Line]:
    return [
        Line(f"{label}, {target}", _time(name, old), _time(name, new))
        for name, label in TIMEOUT_LABELS.items()
        if old.get(name) != new.get(name)
    ]


def _time(name: str, target: Mapping[str, Any]) -> str:
    value = target.get(name)
    return ROUTES_OWN if value is None else shown(name, value)


def weights_told(targets: Sequence[Mapping[str, Any]]) -> dict[Place, str]:
    """Each target's weight and what share that is."""
    shares = shares_in_tiers(targets)
    return {place_of(one): f"{one['weight']} ({told(shares[place_of(one)])})" for one in targets}

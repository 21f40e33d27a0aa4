"""What a closed month says, and what came to earlier ones since. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

Figures = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Whose line it is: a dimension's value, or what stands for many."""

    dimension: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One line: of the statement's own month, or of an earlier one, which is an adjustment."""

    place: Place
    label: str
    of_month: date
    figures: Figures


@dataclass(frozen=True, slots=True)
class Told:
    """A place's name and figures."""

    label: str
    figures: Figures


Month = Mapping[Place, Told]


def lines_of(month: date, now: Month, told: Month) -> list[StatementLine]:
    """What a statement says of a month: of its own, or of an earlier one that is closed.

    `now` has the month's figures as they are now, `told` what closed statements say of it,
    adjustments included. A line is what is there beyond what was told: so all statements together
    say what is there, each thing once.
    """
    return [
        StatementLine(place, _label(place, now, told), month, rest)
        for place in sorted({*now, *told}, key=_order)
        for rest in [_beyond(now.get(place), told.get(place))]
        if any(rest.values())
    ]


def _order(place: Place) -> tuple[str, str, str]:
    return place.dimension, place.kind, place.value


def summed(lines: Iterable[StatementLine]) -> Month:
    """What lines of several statements say of one month."""
    found: dict[Place, Told] = {}
    for line in lines:
        before = found.get(line.place)
        figures = dict(line.figures)
        if before is not None:
            figures = {name: value + before.figures.get(name, 0) for name, value in figures.items()}
        found[line.place] = Told(line.label, figures)
    return found


def _beyond(current: Told | None, before: Told | None) -> Figures:
    now = {} if current is None else current.figures
    told = {} if before is None else before.figures
    return {name: now.get(name, 0) - told.get(name, 0) for name in {**now, **told}}


def _label(place: Place, current: Month, before: Month) -> str:
    """By its name then: what was told once is called so again."""
    found = before.get(place) or current.get(place)
    return "" if found is None else found.label

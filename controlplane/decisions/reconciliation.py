"""Whether two books say the same, and where they don't. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, int]

MOST_NAMED = 50
"""So many differences are named; a book that is wrong throughout needs no longer list."""

LIVE_LEEWAY = 5
"""So many requests may end in another minute by the gateway's counter than by its journal: the
counter is moved when the answer is through, the end is written just before."""

LIVE_LEEWAY_SHARE = 0.002


@dataclass(frozen=True, slots=True)
class Difference:
    """`book` says `found` of a figure where `against` says `expected`; `place` is whose it is."""

    book: str
    against: str
    place: str
    figure: str
    expected: int
    found: int


def compare(
    book: str,
    against: str,
    expected: Mapping[str, Figures],
    found: Mapping[str, Figures],
) -> list[Difference]:
    """Name each figure that differs, by place; what one book lacks is 0 there."""
    return [
        Difference(book, against, place, figure, one.get(figure, 0), other.get(figure, 0))
        for place in sorted({*expected, *found})
        for one, other in [(expected.get(place, {}), found.get(place, {}))]
        for figure in sorted({*one, *other})
        if one.get(figure, 0) != other.get(figure, 0)
    ][:MOST_NAMED]


def compare_counters(
    counted: Mapping[str, int], recorded: Mapping[str, int]
) -> Sequence[Difference]:
    """Name the organisations of which gateways counted other requests than were recorded."""
    return [
        Difference("ledger", "gateways", place, "requests", counted[place], recorded.get(place, 0))
        for place in sorted(counted)
        if abs(counted[place] - recorded.get(place, 0))
        > max(LIVE_LEEWAY, LIVE_LEEWAY_SHARE * counted[place])
    ][:MOST_NAMED]

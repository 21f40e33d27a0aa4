"""The picture of a route: one line to each target, as thick as its share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROW = 52
"""Height of one target in the picture, in px; the template's rows are as high."""

_THINNEST, _THICKEST = 1.5, 9.0


@dataclass(frozen=True, slots=True)
class Line:
    """One target's line: its SVG path over a width of 100, its thickness, its colour."""

    path: str
    thickness: float
    slot: int


@dataclass(frozen=True, slots=True)
class Flow:
    """All lines of a route and the picture's height."""

    height: int
    lines: Sequence[Line]


def draw(shares: Mapping[str, float], slots: Mapping[str, int]) -> Flow:
    """Lines from the middle of the left side to the middle of each target's row."""
    height = ROW * max(len(shares), 1)
    lines = []
    for place, (pool, share) in enumerate(shares.items()):
        end = ROW * place + ROW / 2
        path = f"M0 {height / 2:g} C50 {height / 2:g} 50 {end:g} 100 {end:g}"
        lines.append(Line(path, _THINNEST + share * (_THICKEST - _THINNEST), slots[pool]))
    return Flow(height, lines)

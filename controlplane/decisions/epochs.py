"""Which history of the configuration counts: the database's, or one that went on without it."""

from collections.abc import Iterable
from dataclasses import dataclass

Position = tuple[str, int]
"""Lineage and version; a greater lineage wins whatever its version."""


@dataclass(frozen=True, slots=True)
class Newer:
    """Somebody has a newer configuration than the database: it was put back to an older copy."""

    holder: str
    lineage: str
    version: int


def find_newer(
    ours: Position | None, stored: Position | None, applied: Iterable[Position]
) -> Newer | None:
    """Who is ahead of the database: the state store, or a gateway that won't take what it holds."""
    held = (("the state store holds", stored), ("gateways run", max(applied, default=None)))
    for holder, position in held:
        if position is not None and (ours is None or position > ours):
            return Newer(holder, *position)
    return None


def adopted_position(fresh_lineage: str, known: Iterable[Position]) -> Position:
    """Where the database's configuration goes on: after all that anybody is known to have had.

    Versions go on counting too, so that no number means two things to people. A clock that was put
    back makes no difference.
    """
    positions = tuple(known)
    greatest = max((lineage for lineage, _ in positions), default="")
    lineage = fresh_lineage if fresh_lineage > greatest else f"{greatest}0"
    return lineage, max((version for _, version in positions), default=0) + 1

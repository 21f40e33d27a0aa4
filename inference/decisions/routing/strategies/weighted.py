"""Weighted chance: the exact split by target, then the least wait inside the target's pool."""

from collections.abc import Sequence

from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.waits import pick_least


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the first target that has room: the plan's order was drawn by weight."""
    del wish
    return pick_least(rooms[:1], u=u) if rooms else None


STRATEGY = RoutingStrategy(pick)

"""Cheapest: the target at which the request costs least at most, then the least wait there.

A price that is not known is no low one: such targets come last. Free is the lowest there is.
"""

from collections.abc import Sequence
from math import inf

from inference.contract.values import changed
from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.waits import pick_least


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the target with the lowest known price of this request; equal ones go by wait."""
    del wish
    if not rooms:
        return None
    least = min([_price(room) for room in rooms])
    choice = pick_least([room for room in rooms if _price(room) == least], u=u)
    return changed(choice, terms={"cost_max_nanousd": choice.room.cost_max_nanousd})


def _price(room: Room[C]) -> float:
    return inf if room.cost_max_nanousd is None else room.cost_max_nanousd


STRATEGY = RoutingStrategy(pick)

"""Bounded load: how much a worker may have under way for requests to be kept together there."""

from collections.abc import Sequence
from math import ceil

from inference.contract.values import frozen
from inference.decisions.routing.base import C, Candidate, Room

LOAD_BOUND = 1.25
"""A worker takes this much of its fair share; what belongs together goes on to the next one then.

The lower, the more even and the less together: at 1 nobody would be kept, at 2 half the fleet may
idle.
"""


@frozen
class Share:
    """What is each worker's of a room: `size` of all weights, and how much it may have under way.

    One with less than `bound` has space for one more.
    """

    size: float
    bound: int


def load_of(worker: Candidate) -> int:
    """What a worker has under way, of all gateways."""
    return worker.inflight + worker.peers_inflight


def shares_of(rooms: Sequence[Room[C]]) -> list[Share]:
    """The shares of rooms with weights above 0, room by room; somewhere a worker has space.

    The share of a target is by its weight, and its workers' are equal.
    """
    weights = sum([room.target.weight for room in rooms])
    under_way = sum([load_of(one) for room in rooms for one in room.workers])
    most = LOAD_BOUND * (under_way + 1) / weights
    sizes = [room.target.weight / len(room.workers) for room in rooms]
    return [Share(size, ceil(most * size)) for size in sizes]

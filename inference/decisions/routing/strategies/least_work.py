"""Least work: the shortest wait over all targets, unless a worker has most of the prompt cached.

Requests differ a thousandfold in work, so turns and counts say little; work under way does. A warm
worker is kept until it is busier than the coldest by more than the route accepts.
"""

from collections.abc import Sequence

from inference.contract.values import changed
from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.waits import pick_least, pick_warm, score_of

WARM_FROM = 0.8
"""A worker that has this share of a prompt cached is warm for it."""


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the worker with the least wait, or a warm one whose wait is not much longer."""
    if not rooms:
        return None
    least = pick_least(rooms, u=u)
    warm = pick_warm(rooms, wish=wish, warm_from=WARM_FROM) if wish.hits else None
    if warm is None or least.score is None:
        return least
    room, worker = warm
    score = score_of(worker)
    if score.wait - least.least_wait > wish.max_wait_penalty:
        return least
    return changed(least, room=room, worker=worker, score=score, is_warm=True)


STRATEGY = RoutingStrategy(pick, reads_prefixes=True)

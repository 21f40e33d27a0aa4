"""Prefix affinity: the worker that has most of the prompt cached, while that one has space.

Unlike least work it follows any common beginning, however short, and minds how many requests a
worker has rather than how long they take: for loads in which reading prompts is most of the work.
"""

from collections.abc import Sequence

from inference.contract.values import changed
from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.bounded import load_of, shares_of
from inference.decisions.routing.waits import pick_least, score_of, wait_of


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the warmest worker that has space, the freer of equals; if none is, the least wait."""
    if not rooms:
        return None
    least = pick_least(rooms, u=u)
    if least.score is None or not wish.hits:
        return least
    warm = [
        (hit, -wait_of(worker), room, worker, share.bound)
        for room, share in zip(rooms, shares_of(rooms), strict=True)
        for worker in room.workers
        if (hit := wish.hits.get(worker.id, 0.0)) > 0 and load_of(worker) < share.bound
    ]
    if not warm:
        return least
    hit, _, room, worker, bound = max(warm, key=lambda one: one[:2])
    return changed(
        least,
        room=room,
        worker=worker,
        score=score_of(worker),
        is_warm=True,
        terms={"hit": hit, "load": load_of(worker), "load_bound": bound},
    )


STRATEGY = RoutingStrategy(pick, reads_prefixes=True)

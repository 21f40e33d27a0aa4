"""Session affinity: requests that belong together go to one worker, while that one has space.

Rendezvous hashing: each worker has a rank for each session, and the highest one serves it. One that
comes or goes moves its own sessions only. With bounded load, a worker that has more under way than
its share allows leaves the session to the next by rank.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log

from xxhash import xxh3_64_intdigest

from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.bounded import load_of, shares_of
from inference.decisions.routing.waits import score_of

_BITS = 52  # so many and a half are a number strictly between 0 and 1


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the worker of the highest rank that has space; nothing is left to chance."""
    if not rooms:
        return None
    count = sum([len(room.workers) for room in rooms])
    if count == 1:
        return Choice(rooms[0], rooms[0].workers[0])
    affinity = wish.affinity.encode()
    first, ranked = 0.0, []
    for room, share in zip(rooms, shares_of(rooms), strict=True):
        draws = [xxh3_64_intdigest(affinity, _seed_of(worker.id)) for worker in room.workers]
        first = max(first, _rank(max(draws), share.size))
        free = [
            (drawn, worker)
            for drawn, worker in zip(draws, room.workers, strict=True)
            if load_of(worker) < share.bound
        ]
        if free:
            drawn, worker = max(free, key=lambda one: one[0])
            ranked.append((_rank(drawn, share.size), room, worker, share.bound))
    rank, room, worker, bound = max(ranked, key=lambda one: one[0])
    score = score_of(worker)
    terms = {"load": load_of(worker), "load_bound": bound, "is_moved": rank < first}
    return Choice(room, worker, count, score, score.wait, u=u, terms=terms)


def _rank(drawn: int, size: float) -> float:
    """How much a worker is the one for these requests; more often so, the larger its share.

    Of workers with equal shares it is whoever drew the most.
    """
    return -size / log(((drawn >> (64 - _BITS)) + 0.5) / 2**_BITS)


@lru_cache(maxsize=65_536)
def _seed_of(worker_id: str) -> int:
    return xxh3_64_intdigest(worker_id.encode())


STRATEGY = RoutingStrategy(pick)

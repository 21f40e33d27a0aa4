"""Lowest latency: the worker that is expected to give its first token soonest.

That is what its streams took of late, and what is under way there now. Now and then another one is
taken, or one that was slow once would never be heard of again.
"""

from collections.abc import Sequence

from inference.contract.values import changed
from inference.decisions.routing.base import C, Choice, Room, RoutingStrategy, Wish
from inference.decisions.routing.draws import draw_evenly
from inference.decisions.routing.first_tokens import expected_s, mean_of
from inference.decisions.routing.waits import pick_least, score_of, wait_of

EXPLORED = 0.05
"""This share of requests goes to any worker, however slow."""


def pick(rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Take the worker with the least of learned time and wait; the first share of `u` explores."""
    if not rooms:
        return None
    count = sum([len(room.workers) for room in rooms])
    if count == 1:
        return Choice(rooms[0], rooms[0].workers[0])
    first_tokens = _expected(rooms, now_s=wish.now_s)
    if u < EXPLORED:
        room, worker = _anyone(rooms, count, u / EXPLORED)
        choice = Choice(room, worker, count, score_of(worker), u=u)
    else:
        choice = pick_least(
            rooms,
            u=(u - EXPLORED) / (1 - EXPLORED),
            wait_at=lambda one: first_tokens[one.id] + wait_of(one),
        )
    assert choice.score is not None
    return changed(
        choice,
        least_wait=choice.score.wait,
        u=u,
        terms={
            "first_token_s": round(first_tokens[choice.worker.id], 6),
            "is_explored": u < EXPLORED,
        },
    )


def _expected(rooms: Sequence[Room[C]], *, now_s: float) -> dict[str, float]:
    """Seconds to the first token by worker id, if idle; of pools nobody has seen, the others'."""
    means = [mean_of(room.workers) for room in rooms]
    known = [mean for mean in means if mean is not None]
    usual = sum(known) / len(known) if known else 0.0
    return {
        worker.id: expected_s(worker, mean_s=usual if mean is None else mean, now_s=now_s)
        for room, mean in zip(rooms, means, strict=True)
        for worker in room.workers
    }


def _anyone(rooms: Sequence[Room[C]], count: int, u: float) -> tuple[Room[C], C]:
    index, _ = draw_evenly(count, u)
    return [(room, worker) for room in rooms for worker in room.workers][index]


STRATEGY = RoutingStrategy(pick)

"""How long workers would keep a request waiting, and who of them the shortest.

Scraped figures lag by seconds, so what was sent and not answered is the signal: by this process to
the moment, by the others to the second. Only how full the KV cache is comes from the engine.
"""

from collections.abc import Callable, Sequence
from math import inf

from inference.contract.values import changed
from inference.decisions.routing.base import C, Candidate, Choice, Room, Score, Wish
from inference.decisions.routing.draws import draw, draw_evenly

MAX_COMPARED = 32
"""Above this the better of two drawn ones is taken: nearly as good, at a fixed cost."""

EQUAL = 1e-9
"""Waits that differ by less are equal."""

KV_WEIGHT = 0.15
MAX_KV = 0.99
"""A cache that says it is full all the same makes no infinite wait of it."""


def waits_of(workers: Sequence[Candidate]) -> list[float]:
    """How long a request would wait at each: 1 is a second of prefill or one full batch."""
    return [
        (one.prefill_tokens + one.peers_prefill_tokens) / one.prefill_rate
        + (one.inflight + one.peers_inflight) / one.concurrency
        + (_kv_term(kv) if (kv := one.kv_used) else 0.0)
        for one in workers
    ]


def wait_of(worker: Candidate) -> float:
    """How long it would wait at one."""
    return waits_of((worker,))[0]


def score_of(worker: Candidate) -> Score:
    """The same, term by term."""
    kv = worker.kv_used
    return Score(
        (worker.prefill_tokens + worker.peers_prefill_tokens) / worker.prefill_rate,
        (worker.inflight + worker.peers_inflight) / worker.concurrency,
        _kv_term(kv) if kv else 0.0,
    )


def pick_least(
    rooms: Sequence[Room[C]], *, u: float, wait_at: Callable[[C], float] | None = None
) -> Choice[C]:
    """The worker with the least wait of at least one; of equals, one of the first target's.

    The rooms' order was drawn by weight, so an idle fleet is shared by weight. `wait_at` may
    measure what is least by another measure.
    """
    count = len(rooms[0].workers)
    if len(rooms) > 1:
        count = sum([len(room.workers) for room in rooms])
    if count == 1:
        return Choice(rooms[0], rooms[0].workers[0])
    rest_of_u = u
    compared = rooms
    if count > MAX_COMPARED:
        compared, rest_of_u = _two_of(rooms, u)
    elif len(rooms) == 1 and wait_at is None:
        return _least_in(rooms[0], u)
    least, equals = _least(compared, wait_at)
    room, worker = _one_of(equals, rest_of_u)
    return Choice(room, worker, count, score_of(worker), least, u=u)


def pick_warm(
    rooms: Sequence[Room[C]], *, wish: Wish, warm_from: float
) -> tuple[Room[C], C] | None:
    """Of the workers that have so much of the prompt cached, the one with the least wait."""
    found: tuple[Room[C], C] | None = None
    least = (inf, 0.0)
    for room in rooms:
        for worker, wait in zip(room.workers, waits_of(room.workers), strict=True):
            hit = wish.hits.get(worker.id, 0.0)
            if hit >= warm_from and (wait, -hit) < least:
                least, found = (wait, -hit), (room, worker)
    return found


def _kv_term(kv: float) -> float:
    kv = min(max(kv, 0.0), MAX_KV)
    return KV_WEIGHT * kv / (1 - kv)


def _least_in(room: Room[C], u: float) -> Choice[C]:
    """The worker with the least wait of several in one room; of equals one is drawn."""
    workers = room.workers
    waits = waits_of(workers)
    least = min(waits)
    most = least + EQUAL
    if sorted(waits)[1] > most:
        worker = workers[waits.index(least)]
    else:
        equals = [worker for worker, wait in zip(workers, waits, strict=True) if wait <= most]
        worker = equals[draw_evenly(len(equals), u)[0]]
    return Choice(room, worker, len(waits), score_of(worker), least, u=u)


def _least(
    rooms: Sequence[Room[C]], wait_at: Callable[[C], float] | None
) -> tuple[float, list[tuple[Room[C], C]]]:
    """The least wait there is, and all who have it."""
    if len(rooms) == 1:
        room = rooms[0]
        workers = room.workers
        waits = waits_of(workers) if wait_at is None else [*map(wait_at, workers)]
        least = min(waits)
        most = least + EQUAL
        return least, [(room, workers[n]) for n, wait in enumerate(waits) if wait <= most]
    ranked = [
        (wait, room, worker)
        for room in rooms
        for worker, wait in zip(
            room.workers,
            waits_of(room.workers) if wait_at is None else map(wait_at, room.workers),
            strict=True,
        )
    ]
    least = min([wait for wait, _, _ in ranked])
    most = least + EQUAL
    return least, [(room, worker) for wait, room, worker in ranked if wait <= most]


def _one_of(equals: Sequence[tuple[Room[C], C]], u: float) -> tuple[Room[C], C]:
    """The first target's of them: their order was drawn by weight. Its workers are drawn evenly."""
    if len(equals) == 1:
        return equals[0]
    if equals[0][0] is not equals[-1][0]:
        first = min([room.position for room, _ in equals])
        equals = [one for one in equals if one[0].position == first]
    return equals[draw_evenly(len(equals), u)[0]]


def _two_of(rooms: Sequence[Room[C]], u: float) -> tuple[list[Room[C]], float]:
    """Two draws, each of a target by weight and then of one of its workers."""
    weights = [room.target.weight for room in rooms]
    drawn: list[Room[C]] = []
    for _ in range(2):
        index, u = draw(weights, u)
        room = rooms[index]
        seat, u = draw_evenly(len(room.workers), u)
        drawn.append(changed(room, workers=(room.workers[seat],)))
    return drawn, u

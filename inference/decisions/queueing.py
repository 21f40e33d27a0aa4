"""Who may have how much of a worker, who waits for whom, and for how long one that is refused.

A queue stands before pools whose workers are all full. Times are seconds of one clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp
from typing import Protocol, TypeVar

from inference.contract.kinds import PriorityClass
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import Tried, rooms_for
from inference.decisions.plan import Plan
from inference.decisions.routing.base import Candidate, Room

URGENCY: Mapping[PriorityClass, int] = {one: place for place, one in enumerate(PriorityClass)}
"""0 is the most urgent."""

PROMOTED_AFTER_S = 5.0
PROMOTED_EVERY = 8
"""Of so many slots that come free one goes to whoever has waited longest, if that is so long.

So nobody starves, and the urgent lose an eighth to an old backlog, not their turn.
"""

RETRY_AFTER_MIN_S, RETRY_AFTER_MAX_S = 1, 60

DRAIN_MEMORY_S = 30.0
"""What left so long ago weighs about a third of what leaves now."""

USUAL_OUTPUT_TOKENS = 256
"""What a request that names no maximum is taken to generate."""

OUTPUT_WEIGHT = 4
"""A prompt's tokens are read many at once, an answer's come one by one."""


class Seat(Candidate, Protocol):
    """A worker that may be full: as much as it runs at once is under way there, or promised."""

    @property
    def is_full(self) -> bool: ...


C = TypeVar("C", bound=Seat)


HEARD_S = 2.5
"""What a process says of itself, once a second and read once a second, is heard by then."""

TOLD_S = 2 * HEARD_S
"""For so long a process goes by the least it has said of itself.

Whatever another heard of it when it took more, or was told by it since, was said in this time: so
what each takes for granted is no more than what the other has left it.
"""

TURN_S = 4 * HEARD_S


@dataclass(frozen=True, slots=True)
class Crowd:
    """The gateway processes that are alive; what can't be divided goes round by `turn`.

    That is each one's place among them, and all go on by one together; None is that nobody's turn
    is now. `queued` is how many requests wait at the others, by pool.
    """

    processes: int = 1
    turn: int | None = 0
    queued: Mapping[str, int] = field(default_factory=dict)


ALONE = Crowd()


def turn_of(place: int, now: float) -> int | None:
    """The turn of a process, by its place among all; `now` is in seconds since the epoch.

    Between two turns is a pause: who takes more in one is heard of before the next begins.
    """
    turns, passed_s = divmod(now, TURN_S)
    return place + int(turns) if passed_s < TURN_S / 2 else None


def slots_of(limit: int, *, told: int, others: int | None, crowd: Crowd, pool_id: str = "") -> int:
    """How many requests this process may have under way at a worker that takes `limit` of all.

    `told` is the least it has said of late that it has under way, or less; what it has begun since
    then counts on top, so it is part of what it may have. `others` is what the other processes last
    said, None if that was too long ago: then it has an equal part, and one at least. Else it may
    have `told` and its part of what is free: of two, one that gets all the traffic takes half of
    the rest every few seconds, until it has nearly all. It gives back what is above an equal part,
    as requests end, while others wait for the pool.

    All together never have more than `limit`, if what each says is heard within `HEARD_S` and
    `told` is the least of `TOLD_S`. Where there are more processes than slots each may have one all
    the same, or an idle worker would let it wait.
    """
    processes = max(crowd.processes, 1)
    if processes == 1:
        return limit
    part = _share(limit, crowd.turn, processes)
    if others is None:
        return max(part, 1)
    most = told + _share(limit - others - told, crowd.turn, processes)
    if crowd.queued.get(pool_id):
        most = min(most, part)
    return max(most, 1 if limit < processes else 0)


def _share(amount: int, turn: int | None, processes: int) -> int:
    """One process's part of an amount, or of what is too much; together they make all of it.

    While nobody's turn is they make a little less.
    """
    each, rest = divmod(amount, processes)
    return each + (turn is not None and turn % processes < rest)


def rooms_with_space(
    plan: Plan, capacities: Sequence[Capacity[C]], *, tried: Sequence[Tried]
) -> list[Room[C]]:
    """The rooms of the next attempt without the workers that are full; none if it has to wait.

    A target whose workers are all full is passed over for the next that the attempt could go to, of
    a higher tier too; but not for workers that are to be asked only if there is nobody else.
    """
    rooms = rooms_for(plan, capacities, tried=tried)
    while rooms:
        free = _without_full(rooms)
        if free:
            return free
        full = {room.position for room in rooms}
        capacities = [
            Capacity(()) if position in full or one.is_last_resort else replace(one, aside=())
            for position, one in enumerate(capacities)
        ]
        rooms = rooms_for(plan, capacities, tried=tried)
    return []


def _without_full(rooms: Sequence[Room[C]]) -> list[Room[C]]:
    free: list[Room[C]] = []
    for room in rooms:
        workers = [one for one in room.workers if not one.is_full]
        if len(workers) == len(room.workers):
            free.append(room)
        elif workers:
            free.append(replace(room, workers=workers))
    return free


def work_of(plan: Plan) -> float:
    """About how much work a request is, in tokens of a prompt: what tenants share by."""
    facts = plan.facts
    prompt = facts.prompt_tokens or plan.prompt_tokens_max
    if not facts.answers:
        return float(max(prompt, 1))
    requested = facts.output_tokens_requested
    each = USUAL_OUTPUT_TOKENS if requested is None else min(requested, plan.output_tokens_max)
    return float(max(prompt + OUTPUT_WEIGHT * facts.answers * max(each, 0), 1))


def is_more_urgent(one: PriorityClass, other: PriorityClass) -> bool:
    """Whether the one goes before the other."""
    return URGENCY[one] < URGENCY[other]


def is_promoted(*, waited_s: float, served: int) -> bool:
    """Whether the slot after `served` others goes to whoever waited longest, which is so long."""
    return waited_s >= PROMOTED_AFTER_S and served % PROMOTED_EVERY == PROMOTED_EVERY - 1


@dataclass(frozen=True, slots=True)
class Drain:
    """How fast a queue has been left for workers of late, the older the less it counts.

    `departed` requests in `busy_s` seconds in which somebody waited, as of `at_s`; None is that
    nobody waits now.
    """

    departed: float = 0.0
    busy_s: float = 0.0
    at_s: float | None = None


def drain_begun(drain: Drain, now: float) -> Drain:
    """Somebody waits from now on."""
    return replace(drain, at_s=now)


def drain_ended(drain: Drain, now: float) -> Drain:
    """Nobody waits any more."""
    return replace(_advanced(drain, now), at_s=None)


def drain_left(drain: Drain, now: float) -> Drain:
    """One left for a worker."""
    drain = _advanced(drain, now)
    return replace(drain, departed=drain.departed + 1)


def retry_after_s(drains: Sequence[Drain], *, ahead: int, oldest_s: float, now: float) -> int:
    """When one that is refused would have its turn, in whole seconds.

    `ahead` wait before it for any of these pools, the oldest of them for `oldest_s`, which is all
    there is to go by where nothing was seen to leave.
    """
    rate = sum(_rate(_advanced(one, now)) for one in drains)
    wait_s = (ahead + 1) / rate if rate > 0 else oldest_s
    return ceil(min(max(wait_s, RETRY_AFTER_MIN_S), RETRY_AFTER_MAX_S))


def _advanced(drain: Drain, now: float) -> Drain:
    if drain.at_s is None:
        return drain
    passed_s = max(now - drain.at_s, 0.0)
    kept = exp(-passed_s / DRAIN_MEMORY_S)
    return Drain(drain.departed * kept, drain.busy_s * kept + passed_s, now)


def _rate(drain: Drain) -> float:
    return drain.departed / drain.busy_s if drain.busy_s > 0 else 0.0

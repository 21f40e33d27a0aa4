"""Who serves the next attempt of a request, if there is to be one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from inference.decisions.breaker import Capacity
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.routing.base import Candidate, Choice, Room, Wish
from inference.decisions.routing.registry import REGISTRY as STRATEGIES

C = TypeVar("C", bound=Candidate)


class _Turn(Enum):
    """When it is a worker's turn: next if nobody of the turn before is left."""

    FIRST = 1
    ASIDE = 2
    LAST = 3


_FIRST, _ASIDE, _LAST = _Turn


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt that failed in a way another may mend; `may_repeat`: even on the same worker.

    `was_too_long` says that the request doesn't fit the context of the target's model.
    """

    target_id: str
    worker_id: str
    may_repeat: bool
    was_too_long: bool = False


def rooms_for(
    plan: Plan, capacities: Sequence[Capacity[C]], *, tried: Sequence[Tried]
) -> list[Room[C]]:
    """The targets and workers among which the next attempt is placed; none if it is time to end.

    `capacities` are of the plan's targets, in its order. Each worker is tried once. Those that were
    set aside come after all others, and pools whose every breaker is open come last; of what is
    left so, the lowest tier that has room; in it, targets not tried yet. The only target's worker
    is tried once more if that may help and there is no other. A request that was too long for a
    model goes only to models that take longer ones.
    """
    if len(tried) >= plan.route.max_attempts:
        return []
    if not tried:
        if len(capacities) == 1:
            return _only_room(plan, capacities[0])
        rooms = (
            _rooms(plan, capacities, _FIRST)
            or _rooms(plan, capacities, _ASIDE)
            or _rooms(plan, capacities, _LAST)
        )
        return rooms if len(rooms) < 2 else _lowest_tier(rooms)
    seen_workers = {one.worker_id for one in tried}
    seen_targets = {one.target_id for one in tried}
    too_short = {one.target_id for one in tried if one.was_too_long}
    if too_short:
        capacities = _with_more_context(plan, capacities, too_short)
    for turn in _Turn:
        rooms = _lowest_tier(_rooms(plan, capacities, turn, without=seen_workers))
        fresh = [room for room in rooms if room.target.id not in seen_targets]
        if rooms:
            return fresh or rooms
    if len(plan.targets) == len(tried) == 1 and tried[0].may_repeat:
        return _rooms(plan, capacities, _FIRST)
    return []


def failure_to_tell(plan: Plan, tried: Sequence[Tried], *, is_out_of_retries: bool) -> int:
    """Which of a request's failed attempts its caller is told of, by its place; there is one.

    That the request is too long is something its caller can mend, and what befell the larger models
    that were asked instead is not: so it is told, by the largest model that said so. But if a model
    that takes more had failed before anybody said so, the request may be well, and what a smaller
    one says misleads. Else it is the last failure, or the first if no retry was left.
    """
    planned = {one.target.id: one for one in plan.targets}
    refused = [place for place, one in enumerate(tried) if one.was_too_long]
    if refused:
        outgrown = planned[tried[refused[0]].target_id]
        before = (planned[one.target_id] for one in tried[: refused[0]])
        if not any(_takes_more(one, outgrown) for one in before):
            return refused[-1]
    failed = [place for place in range(len(tried)) if place not in refused]
    return failed[0] if is_out_of_retries else failed[-1]


def is_repeat(rooms: Sequence[Room[C]], tried: Sequence[Tried]) -> bool:
    """Whether the next attempt goes to a worker that has failed this very request."""
    if not tried or not rooms:
        return False
    return rooms[0].workers[0].id in {one.worker_id for one in tried}


def pick_worker(plan: Plan, rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Choose among them as the route's strategy does."""
    return STRATEGIES[plan.route.strategy].pick(rooms, wish=wish, u=u)


def reads_prefixes(plan: Plan, rooms: Sequence[Room[C]], *, has_others: bool = False) -> bool:
    """Whether it makes a difference to the choice who has what of the prompt cached.

    With others that are passed over only for now, it does to the next choice.
    """
    if not STRATEGIES[plan.route.strategy].reads_prefixes:
        return False
    return has_others or len(rooms) > 1 or (len(rooms) == 1 and len(rooms[0].workers) > 1)


def _with_more_context(
    plan: Plan, capacities: Sequence[Capacity[C]], too_short: Collection[str]
) -> list[Capacity[C]]:
    """Nobody in place of the targets whose model takes no more than those that took too little."""
    outgrown = [planned for planned in plan.targets if planned.target.id in too_short]
    return [
        capacity if all(_takes_more(planned, one) for one in outgrown) else Capacity(())
        for planned, capacity in zip(plan.targets, capacities, strict=True)
    ]


def _takes_more(planned: PlannedTarget, other: PlannedTarget) -> bool:
    """Whether it has the larger context, for all that is known of both."""
    if planned.max_context_tokens is None or other.max_context_tokens is None:
        return planned.pool.model_id != other.pool.model_id
    return planned.max_context_tokens > other.max_context_tokens


def _lowest_tier(rooms: list[Room[C]]) -> list[Room[C]]:
    """The first of them and those of its tier: a plan has the lower tiers first.

    Those that are asked in another endpoint's words are a tier of their own, after the others.
    """
    if len(rooms) < 2:
        return rooms
    first, last = rooms[0], rooms[-1]
    if first.target.tier == last.target.tier and first.is_bridged is last.is_bridged:
        return rooms
    return [
        room
        for room in rooms
        if room.target.tier == first.target.tier and room.is_bridged is first.is_bridged
    ]


def _only_room(plan: Plan, capacity: Capacity[C]) -> list[Room[C]]:
    """The room of a plan's only target: what the turns come to where there is but one."""
    workers = capacity.workers
    if not workers and not capacity.is_last_resort:
        workers = capacity.aside
    if not workers:
        return []
    planned = plan.targets[0]
    is_bridged = planned.bridge is not None
    return [
        Room(planned.target, workers, 0, capacity.is_panic, planned.cost_max_nanousd, is_bridged)
    ]


def _rooms(
    plan: Plan,
    capacities: Sequence[Capacity[C]],
    turn: _Turn,
    *,
    without: Collection[str] = (),
) -> list[Room[C]]:
    rooms: list[Room[C]] = []
    for position, planned in enumerate(plan.targets):
        capacity = capacities[position]
        if capacity.is_last_resort is not (turn is _LAST):
            continue
        workers = capacity.aside if turn is _ASIDE else capacity.workers
        if without:
            workers = [worker for worker in workers if worker.id not in without]
        if workers:
            cost, is_bridged = planned.cost_max_nanousd, planned.bridge is not None
            rooms.append(
                Room(planned.target, workers, position, capacity.is_panic, cost, is_bridged)
            )
    return rooms

"""Who serves the next attempt of a request, if there is to be one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from inference.decisions.breaker import Capacity
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.routing.base import Candidate, Choice, Room, Wish
from inference.decisions.routing.registry import REGISTRY as STRATEGIES

C = TypeVar("C", bound=Candidate)


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

    `capacities` are of the plan's targets, in its order. Each worker is tried once: those of
    targets not tried yet come first, and pools whose every breaker is open come last. The only
    target's worker is tried once more if that may help and there is no other. A request that was
    too long for a model goes only to models that take longer ones.
    """
    if len(tried) >= plan.route.max_attempts:
        return []
    if not tried:
        return _rooms(plan, capacities, is_last_resort=False) or _rooms(
            plan, capacities, is_last_resort=True
        )
    seen_workers = {one.worker_id for one in tried}
    seen_targets = {one.target_id for one in tried}
    too_short = {one.target_id for one in tried if one.was_too_long}
    if too_short:
        capacities = _with_more_context(plan, capacities, too_short)
    for is_last_resort in (False, True):
        rooms = _rooms(plan, capacities, is_last_resort=is_last_resort, without=seen_workers)
        fresh = [room for room in rooms if room.target.id not in seen_targets]
        if rooms:
            return fresh or rooms
    if len(plan.targets) == len(tried) == 1 and tried[0].may_repeat:
        return _rooms(plan, capacities, is_last_resort=False)
    return []


def pick_worker(plan: Plan, rooms: Sequence[Room[C]], *, wish: Wish, u: float) -> Choice[C] | None:
    """Choose among them as the route's strategy does."""
    return STRATEGIES[plan.route.strategy].pick(rooms, wish=wish, u=u)


def reads_prefixes(plan: Plan, rooms: Sequence[Room[C]]) -> bool:
    """Whether it makes a difference to the choice who has what of the prompt cached."""
    if not STRATEGIES[plan.route.strategy].reads_prefixes:
        return False
    return len(rooms) > 1 or (len(rooms) == 1 and len(rooms[0].workers) > 1)


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
    """Whether its model has the larger context, for all that is known of both."""
    if planned.pool.model_id == other.pool.model_id:
        return False
    if planned.max_context_tokens is None or other.max_context_tokens is None:
        return True
    return planned.max_context_tokens > other.max_context_tokens


def _rooms(
    plan: Plan,
    capacities: Sequence[Capacity[C]],
    *,
    is_last_resort: bool,
    without: Collection[str] = (),
) -> list[Room[C]]:
    rooms: list[Room[C]] = []
    for position, (planned, capacity) in enumerate(zip(plan.targets, capacities, strict=True)):
        if capacity.is_last_resort is not is_last_resort:
            continue
        workers = capacity.workers
        if without:
            workers = [worker for worker in workers if worker.id not in without]
        if workers:
            rooms.append(Room(planned.target, workers, position, capacity.is_panic))
    return rooms

"""Where a first attempt goes, as a gateway decides it: to a choice, past a full one, or waiting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import pick_worker, rooms_for
from inference.decisions.plan import Plan
from inference.decisions.queueing import Seat, rooms_with_space
from inference.decisions.routing.base import Choice, Room, Wish

C = TypeVar("C", bound=Seat)


@dataclass(frozen=True, slots=True)
class Placing(Generic[C]):
    """Who is chosen of these rooms; None if there is nobody, or if it `waits` for a full one."""

    rooms: Sequence[Room[C]]
    choice: Choice[C] | None
    waits: bool = False


def place_first(
    plan: Plan,
    capacities: Sequence[Capacity[C]],
    *,
    hits: Mapping[str, float],
    now_s: float,
    u: float,
) -> Placing[C]:
    """Choose among all; where the choice is full, among those with room, or wait.

    `capacities` are of the plan's targets, in its order; `hits` are the shares of its prompt that
    workers have cached.
    """
    rooms = rooms_for(plan, capacities, tried=())
    if not rooms:
        return Placing(rooms, None)
    wish = Wish(hits, plan.route.max_wait_penalty, plan.affinity, now_s)
    choice = pick_worker(plan, rooms, wish=wish, u=u)
    if choice is None or not choice.worker.is_full:
        return Placing(rooms, choice)
    free = rooms_with_space(plan, capacities, tried=())
    if not free:
        return Placing(rooms, None, waits=True)
    return Placing(free, pick_worker(plan, free, wish=wish, u=u))

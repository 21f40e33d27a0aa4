"""What to do with a request: which route, which targets in which order, at what most cost."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from inference.contract.events import PriceUsed
from inference.contract.kinds import PoolPower
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
)
from inference.decisions.cost import bound_output_tokens, cost_at_most, price_used
from inference.decisions.routing.registry import REGISTRY as STRATEGIES


class RefusalCode(StrEnum):
    """Why no plan could be made."""

    MODEL_NOT_FOUND = "model_not_found"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with its reason; `route` is set if it got as far as one the caller may see."""

    code: RefusalCode
    route: RouteRecord | None = None


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a plan needs to know of a request. `answers` is how many were asked for (`n`)."""

    model: str
    prompt_tokens_max: int
    output_tokens_requested: int | None = None
    answers: int = 1


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """One destination with all that an attempt on it needs of the snapshot."""

    target: TargetRecord
    pool: PoolRecord
    price: PriceUsed | None
    cost_max_nanousd: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The route taken and its targets in the order they are tried.

    `cost_max_nanousd` is the bound at the dearest target, None as soon as one has no price. `at` is
    seconds since the epoch, `u` the chance it was drawn with: the same inputs give the same plan.
    """

    route: RouteRecord
    targets: tuple[PlannedTarget, ...]
    prompt_tokens_max: int
    output_tokens_max: int
    cost_max_nanousd: int | None
    at: float
    u: float


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt that failed in a way another may mend; `may_repeat`: even on the same worker."""

    target_id: str
    worker_id: str
    may_repeat: bool


class Candidate(Protocol):
    """What is asked of a worker before it is chosen."""

    @property
    def id(self) -> str: ...

    @property
    def inflight(self) -> int: ...


C = TypeVar("C", bound=Candidate)


def plan_request(
    snapshot: ConfigSnapshot, identity: KeyRecord, *, request: RequestFacts, now: float, u: float
) -> Plan | Refusal:
    """Find the route the caller named, if the key may use it, and order its targets by `u`."""
    route = find_route(snapshot, identity, request.model)
    if route is None:
        return Refusal(RefusalCode.MODEL_NOT_FOUND)
    output_tokens_max = bound_output_tokens(
        request.output_tokens_requested,
        answers=request.answers,
        default_tokens=route.default_max_output_tokens,
    )
    targets = tuple(
        _planned(snapshot, target, pool, (request.prompt_tokens_max, output_tokens_max))
        for target in STRATEGIES[route.strategy](route.targets, u=u)
        if (pool := _running_pool(snapshot, target)) is not None
    )
    if not targets:
        return Refusal(RefusalCode.NO_CAPACITY, route)
    costs = [target.cost_max_nanousd for target in targets]
    return Plan(
        route=route,
        targets=targets,
        prompt_tokens_max=request.prompt_tokens_max,
        output_tokens_max=output_tokens_max,
        cost_max_nanousd=_dearest(costs),
        at=now,
        u=u,
    )


def find_route(snapshot: ConfigSnapshot, identity: KeyRecord, name: str) -> RouteRecord | None:
    """The enabled route of that name, or None if there is none that this key may use."""
    route = snapshot.routes.get((identity.organisation_id, name))
    if route is None or not is_visible(route, identity):
        return None
    return route


def is_visible(route: RouteRecord, identity: KeyRecord) -> bool:
    """Whether the key may name this route; no list is every route of its organisation."""
    if not route.is_enabled or route.organisation_id != identity.organisation_id:
        return False
    return identity.route_names is None or route.name in identity.route_names


def next_target(
    plan: Plan, tried: Sequence[Tried], *, available: Collection[str]
) -> PlannedTarget | None:
    """The target of the next attempt, or None when it is time to give up.

    `available` holds the targets with a ready worker that has not been tried. Each target is tried
    once; the only one of a route is tried on its other workers, or once more on the same.
    """
    if len(tried) >= plan.route.max_attempts:
        return None
    done = {one.target_id for one in tried}
    for planned in plan.targets:
        if planned.target.id not in done and planned.target.id in available:
            return planned
    only = plan.targets[0]
    if len(plan.targets) > 1 or not tried:
        return None
    may_repeat = len(tried) == 1 and tried[0].may_repeat
    return only if may_repeat or only.target.id in available else None


def choose_worker(workers: Sequence[C], *, tried: Collection[str], u: float) -> C | None:
    """The ready worker with the least in flight, a new one before a tried one; `u` breaks ties."""
    if len(workers) == 1:
        return workers[0]
    fresh = [worker for worker in workers if worker.id not in tried] or workers
    if not fresh:
        return None
    least = min(worker.inflight for worker in fresh)
    equals = [worker for worker in fresh if worker.inflight == least]
    return equals[int(u * len(equals))]


def _running_pool(snapshot: ConfigSnapshot, target: TargetRecord) -> PoolRecord | None:
    pool = snapshot.pools.get(target.pool_id)
    return pool if pool is not None and pool.power is PoolPower.RUNNING else None


def _planned(
    snapshot: ConfigSnapshot, target: TargetRecord, pool: PoolRecord, most: tuple[int, int]
) -> PlannedTarget:
    price = price_used(snapshot.prices.get(pool.model_id))
    prompt_tokens, output_tokens = most
    return PlannedTarget(target, pool, price, cost_at_most(prompt_tokens, output_tokens, price))


def _dearest(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None

"""What to do with a request: which route, which targets in which order, at what most cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.events import PriceUsed
from inference.contract.kinds import Endpoint, PoolPower
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    PoolRecord,
    RouteRecord,
    TargetRecord,
)
from inference.decisions.cost import bound_output_tokens, cost_at_most, price_used
from inference.decisions.endpoints import EVERYTHING, Offers, fitting_targets, misfit
from inference.decisions.routing.draws import order_targets


class RefusalCode(StrEnum):
    """Why no plan could be made."""

    MODEL_NOT_FOUND = "model_not_found"
    WRONG_ENDPOINT = "wrong_endpoint"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with its reason; `route` is set if it got as far as one the caller may see.

    `message` is for the caller, "" where the code says it all.
    """

    code: RefusalCode
    route: RouteRecord | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a plan needs to know of a request.

    `answers` is how many were asked for in all: `n` for each prompt, 0 where none is generated.
    """

    model: str
    prompt_tokens_max: int
    output_tokens_requested: int | None = None
    answers: int = 1
    endpoint: Endpoint = Endpoint.CHAT


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """One destination with all that an attempt on it needs of the snapshot.

    `max_context_tokens` is its model's; None is not known.
    """

    target: TargetRecord
    pool: PoolRecord
    price: PriceUsed | None
    cost_max_nanousd: int | None
    max_context_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The route taken and its targets in an order drawn by weight.

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


def plan_request(
    snapshot: ConfigSnapshot,
    identity: KeyRecord,
    *,
    request: RequestFacts,
    now: float,
    u: float,
    offers: Offers = EVERYTHING,
) -> Plan | Refusal:
    """Find the route the caller named, if the key may use it, and order its targets by `u`.

    Targets that don't answer the request's endpoint are left out; `offers` is what backends can do.
    """
    route = find_route(snapshot, identity, request.model)
    if route is None:
        return Refusal(RefusalCode.MODEL_NOT_FOUND)
    fitting = fitting_targets(snapshot, route, request.endpoint, offers=offers)
    if route.targets and not fitting:
        message = misfit(snapshot, route, request.endpoint, offers=offers)
        return Refusal(RefusalCode.WRONG_ENDPOINT, route, message)
    output_tokens_max = bound_output_tokens(
        request.output_tokens_requested,
        answers=request.answers,
        default_tokens=route.default_max_output_tokens,
    )
    targets = tuple(
        _planned(snapshot, target, pool, (request.prompt_tokens_max, output_tokens_max))
        for target in order_targets(fitting, u=u)
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


def _running_pool(snapshot: ConfigSnapshot, target: TargetRecord) -> PoolRecord | None:
    pool = snapshot.pools.get(target.pool_id)
    return pool if pool is not None and pool.power is PoolPower.RUNNING else None


def _planned(
    snapshot: ConfigSnapshot, target: TargetRecord, pool: PoolRecord, most: tuple[int, int]
) -> PlannedTarget:
    price = price_used(snapshot.prices.get(pool.model_id))
    model = snapshot.models.get(pool.model_id)
    prompt_tokens, output_tokens = most
    return PlannedTarget(
        target,
        pool,
        price,
        cost_at_most(prompt_tokens, output_tokens, price),
        None if model is None else model.max_context_tokens,
    )


def _dearest(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None

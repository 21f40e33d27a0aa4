"""What to do with a request: which route, which targets in which order, at what most cost.

A plan is a function of its arguments alone, so that what was decided can be explained, and what
would have been decided replayed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from inference.contract.events import PriceUsed
from inference.contract.kinds import Endpoint, PoolPower
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    PoolRecord,
    RouteRecord,
    RuleRecord,
    SwitchRecord,
    TargetRecord,
)
from inference.contract.values import frozen
from inference.decisions.cost import bound_output_tokens, cost_at_most, price_used
from inference.decisions.endpoints import (
    BRIDGES,
    EVERYTHING,
    Offers,
    asked_as,
    fitting_targets,
    misfit,
)
from inference.decisions.facts import RequestFacts, Standing, standing_of
from inference.decisions.routing.draws import order_targets
from inference.decisions.rules import Circumstances, matching_rule
from inference.decisions.switches import switch_on_caller, switch_on_pool, switch_on_route

__all__ = [
    "LeftOut",
    "LeftOutReason",
    "Plan",
    "PlannedTarget",
    "Refusal",
    "RefusalCode",
    "RequestFacts",
    "find_route",
    "is_visible",
    "plan_request",
]


class RefusalCode(StrEnum):
    """Why no plan could be made.

    Of what is switched off, the caller's own or the route is one, its last target the other.
    """

    SWITCHED_OFF = "switched_off"
    MODEL_NOT_FOUND = "model_not_found"
    TARGET_NOT_FOUND = "target_not_found"
    WRONG_ENDPOINT = "wrong_endpoint"
    NOT_BRIDGEABLE = "not_bridgeable"
    TARGETS_SWITCHED_OFF = "targets_switched_off"
    NO_CAPACITY = "no_capacity"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with its reason; `route` is set if it got as far as one the caller may see.

    `message` is for the caller, "" where the code says it all. `switch` is the kill switch that was
    met, `rule_id` the rule that had chosen the targets, `param` the member at fault.
    """

    code: RefusalCode
    route: RouteRecord | None = None
    message: str = ""
    switch: SwitchRecord | None = None
    rule_id: str | None = None
    param: str | None = None


class LeftOutReason(StrEnum):
    """Why a target of the chosen ones is not in a plan, though it has a weight."""

    WRONG_ENDPOINT = "wrong_endpoint"
    NOT_RUNNING = "not_running"
    SWITCHED_OFF = "switched_off"
    CONTEXT_TOO_SMALL = "context_too_small"
    NOT_BRIDGEABLE = "not_bridgeable"


@frozen
class LeftOut:
    """A target that nothing is sent to, and why; `switch` is the one that turned it off."""

    target_id: str
    reason: LeftOutReason
    switch: SwitchRecord | None = None


@frozen
class PlannedTarget:
    """One destination with all that an attempt on it needs of the snapshot.

    `max_context_tokens` is what its pool says or else its model; None is not known. `fallbacks` is
    how many tiers of the chosen targets come before its own. `bridge` is the endpoint in whose
    words its workers are asked, if they don't have the request's own.
    """

    target: TargetRecord
    pool: PoolRecord
    price: PriceUsed | None
    cost_max_nanousd: int | None
    max_context_tokens: int | None = None
    fallbacks: int = 0
    bridge: Endpoint | None = None


@frozen
class Plan:
    """The route taken and its targets: lower tiers first, inside one in an order drawn by weight.

    Targets that have the request's endpoint come before those of their tier that are asked in the
    words of another.

    They are those of the rule that matched, if one did. `cost_max_nanousd` is the bound at the
    dearest target, None as soon as one has no price. `at` is seconds since the epoch, `u` the
    chance it was drawn with: the same inputs give the same plan. Requests of one `affinity` belong
    together: it is the session, else the end user, else the key.
    """

    route: RouteRecord
    targets: tuple[PlannedTarget, ...]
    prompt_tokens_max: int
    output_tokens_max: int
    cost_max_nanousd: int | None
    at: float
    u: float
    facts: RequestFacts
    standing: Standing
    affinity: str
    rule_id: str | None = None
    left_out: tuple[LeftOut, ...] = ()


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

    Left out are targets that don't answer the request's endpoint (`offers` is what backends can
    do), whose pool doesn't run, that are switched off, and whose context is too small if another's
    is not.
    """
    route = _route_for(snapshot, identity, request.model, now=now)
    if isinstance(route, Refusal):
        return route
    standing = standing_of(request, identity, route)
    chosen, rule_id = route.targets, None
    if request.target_id is not None:
        chosen = _asked_for(route, request.target_id)
        if not chosen:
            return Refusal(RefusalCode.TARGET_NOT_FOUND, route)
    elif route.rules:
        rule = _rule_for(snapshot, route, identity, request, standing=standing, now=now)
        if rule is not None:
            chosen, rule_id = rule.targets, rule.id
    fitting = fitting_targets(
        snapshot, chosen, request.endpoint, offers=offers, may_bridge=request.is_bridgeable
    )
    if chosen and not fitting:
        return _misfit(snapshot, route, chosen, request, offers=offers, rule_id=rule_id)
    output_tokens_max = bound_output_tokens(
        request.output_tokens_requested,
        answers=request.answers,
        default_tokens=route.default_max_output_tokens,
    )
    most = (request.prompt_tokens_max, output_tokens_max)
    ordered = order_targets(fitting, u=u)
    targets, left_out = _usable(snapshot, ordered, most, now=now)
    if not targets:
        return _nobody(route, left_out, rule_id=rule_id)
    targets = _suitable(targets, request, offers, left_out)
    if len(fitting) < len(chosen):
        left_out += _misfits(snapshot, chosen, fitting, request, offers)
    return Plan(
        route=route,
        targets=tuple(targets),
        prompt_tokens_max=request.prompt_tokens_max,
        output_tokens_max=output_tokens_max,
        cost_max_nanousd=_dearest([target.cost_max_nanousd for target in targets]),
        at=now,
        u=u,
        facts=request,
        standing=standing,
        affinity=request.session or request.end_user or identity.id,
        rule_id=rule_id,
        left_out=tuple(left_out),
    )


def find_route(snapshot: ConfigSnapshot, identity: KeyRecord, name: str) -> RouteRecord | None:
    """The enabled route of that name or alias, or None if there is none that this key may use."""
    called = (identity.organisation_id, name)
    route = snapshot.routes.get(called) or snapshot.aliases.get(called)
    if route is None or not is_visible(route, identity):
        return None
    return route


def is_visible(route: RouteRecord, identity: KeyRecord) -> bool:
    """Whether the key may name this route; no list is every route of its organisation."""
    if not route.is_enabled or route.organisation_id != identity.organisation_id:
        return False
    return identity.route_names is None or route.name in identity.route_names


def _route_for(
    snapshot: ConfigSnapshot, identity: KeyRecord, name: str, *, now: float
) -> RouteRecord | Refusal:
    """The route, unless the caller or the route is switched off or the caller may not use it."""
    switch = switch_on_caller(snapshot, identity, now=now)
    if switch is not None:
        return Refusal(RefusalCode.SWITCHED_OFF, switch=switch)
    route = find_route(snapshot, identity, name)
    if route is None:
        return Refusal(RefusalCode.MODEL_NOT_FOUND)
    switch = switch_on_route(snapshot, route, now=now)
    if switch is not None:
        return Refusal(RefusalCode.SWITCHED_OFF, route, switch=switch)
    return route


def _rule_for(
    snapshot: ConfigSnapshot,
    route: RouteRecord,
    identity: KeyRecord,
    request: RequestFacts,
    *,
    standing: Standing,
    now: float,
) -> RuleRecord | None:
    owner = snapshot.organisations.get(route.organisation_id)
    zone = "UTC" if owner is None else owner.time_zone
    return matching_rule(route, Circumstances(request, standing, identity, now, zone))


def _asked_for(route: RouteRecord, target_id: str) -> tuple[TargetRecord, ...]:
    """The target of this id alone, wherever it stands and whatever its weight."""
    for target in (*route.targets, *(one for rule in route.rules for one in rule.targets)):
        if target.id == target_id:
            return (replace(target, weight=1),)
    return ()


def _usable(
    snapshot: ConfigSnapshot,
    ordered: Sequence[TargetRecord],
    most: tuple[int, int],
    *,
    now: float,
) -> tuple[list[PlannedTarget], list[LeftOut]]:
    """Those whose pool runs and isn't switched off, and why the others are left out."""
    targets: list[PlannedTarget] = []
    left_out: list[LeftOut] = []
    fallbacks, tier = -1, None
    for target in ordered:
        if target.tier != tier:
            fallbacks, tier = fallbacks + 1, target.tier
        pool = snapshot.pools.get(target.pool_id)
        if pool is None or pool.power is not PoolPower.RUNNING:
            left_out.append(LeftOut(target.id, LeftOutReason.NOT_RUNNING))
        elif (switch := switch_on_pool(snapshot, pool, now=now)) is not None:
            left_out.append(LeftOut(target.id, LeftOutReason.SWITCHED_OFF, switch))
        else:
            targets.append(_planned(snapshot, target, pool, most, fallbacks))
    return targets, left_out


def _nobody(route: RouteRecord, left_out: Sequence[LeftOut], *, rule_id: str | None) -> Refusal:
    """The refusal of a request that no target is left for: for want of any, or switched off."""
    switch = next((one.switch for one in left_out if one.switch is not None), None)
    code = RefusalCode.NO_CAPACITY if switch is None else RefusalCode.TARGETS_SWITCHED_OFF
    return Refusal(code, route, switch=switch, rule_id=rule_id)


def _suitable(
    targets: list[PlannedTarget], request: RequestFacts, offers: Offers, left_out: list[LeftOut]
) -> list[PlannedTarget]:
    """Those that have room for the request, and first those that need no other words for it."""
    if request.endpoint in BRIDGES:
        targets = _own_words_first(targets, request.endpoint, offers)
    return _with_enough_context(targets, request, left_out) if len(targets) > 1 else targets


def _with_enough_context(
    targets: list[PlannedTarget], request: RequestFacts, left_out: list[LeftOut]
) -> list[PlannedTarget]:
    """Those whose context the request fits, by its estimate; all if it fits none.

    Estimates err, so the engine has the last word where there is no better target.
    """
    each = request.prompt_tokens // max(request.prompts, 1)
    needed = each + max(request.output_tokens_requested or 0, 0)
    small = [
        one
        for one in targets
        if one.max_context_tokens is not None and one.max_context_tokens < needed
    ]
    if not small or len(small) == len(targets):
        return targets
    left_out += [LeftOut(one.target.id, LeftOutReason.CONTEXT_TOO_SMALL) for one in small]
    return [one for one in targets if one not in small]


def _own_words_first(
    targets: list[PlannedTarget], endpoint: Endpoint, offers: Offers
) -> list[PlannedTarget]:
    """Those that have an endpoint before those of their tier that know it in other words only."""
    told = []
    for planned in targets:
        asked = asked_as(planned.pool, endpoint, offers=offers)
        told.append(planned if asked is endpoint else replace(planned, bridge=asked))
    return sorted(told, key=lambda one: (one.target.tier, one.bridge is not None))


def _misfit(
    snapshot: ConfigSnapshot,
    route: RouteRecord,
    targets: tuple[TargetRecord, ...],
    request: RequestFacts,
    *,
    offers: Offers,
    rule_id: str | None,
) -> Refusal:
    """The refusal of a request whose endpoint no target answers, or none in its own words."""
    endpoint = request.endpoint
    if not request.is_bridgeable and fitting_targets(snapshot, targets, endpoint, offers=offers):
        return Refusal(RefusalCode.NOT_BRIDGEABLE, route, rule_id=rule_id)
    message = misfit(snapshot, replace(route, targets=targets), endpoint, offers=offers)
    return Refusal(RefusalCode.WRONG_ENDPOINT, route, message, param="model", rule_id=rule_id)


def _misfits(
    snapshot: ConfigSnapshot,
    targets: Sequence[TargetRecord],
    fitting: Sequence[TargetRecord],
    request: RequestFacts,
    offers: Offers,
) -> list[LeftOut]:
    kept = {target.id for target in fitting}
    might = fitting_targets(snapshot, targets, request.endpoint, offers=offers)
    reasons = dict.fromkeys((target.id for target in might), LeftOutReason.NOT_BRIDGEABLE)
    return [
        LeftOut(target.id, reasons.get(target.id, LeftOutReason.WRONG_ENDPOINT))
        for target in targets
        if target.weight > 0 and target.id not in kept
    ]


def _planned(
    snapshot: ConfigSnapshot,
    target: TargetRecord,
    pool: PoolRecord,
    most: tuple[int, int],
    fallbacks: int,
) -> PlannedTarget:
    price = price_used(snapshot.prices.get(pool.model_id))
    prompt_tokens, output_tokens = most
    return PlannedTarget(
        target,
        pool,
        price,
        cost_at_most(prompt_tokens, output_tokens, price),
        _context_of(snapshot, pool),
        fallbacks,
    )


def _context_of(snapshot: ConfigSnapshot, pool: PoolRecord) -> int | None:
    """How long a prompt and its output may be: an engine can be started with less than it could."""
    stated = pool.engine_arguments.get("max_model_len")
    if isinstance(stated, int):
        return stated
    model = snapshot.models.get(pool.model_id)
    return None if model is None else model.max_context_tokens


def _dearest(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None

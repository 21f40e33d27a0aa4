"""What to do with a request: which route, which targets in which order, at what most cost.

A plan is a function of its arguments alone, so that what was decided can be explained, and what
would have been decided replayed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from inference.contract import refusals
from inference.contract.events import PriceUsed
from inference.contract.kinds import Endpoint
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    PoolRecord,
    RouteRecord,
    SwitchRecord,
    TargetRecord,
)
from inference.contract.values import changed, frozen
from inference.decisions.arms import arm_of
from inference.decisions.cost import bound_output_tokens, cost_at_most
from inference.decisions.endpoints import EVERYTHING, Offers, misfit
from inference.decisions.experiments import Assignment, assign
from inference.decisions.facts import RequestFacts, Standing, standing_of
from inference.decisions.groundwork import Groundwork, LineUp, Seat, Way, find_route, is_visible
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


_WORDS: Mapping[RefusalCode, str] = {
    RefusalCode.SWITCHED_OFF: refusals.SWITCHED_OFF,
    RefusalCode.MODEL_NOT_FOUND: refusals.MODEL_NOT_FOUND,
    RefusalCode.TARGET_NOT_FOUND: refusals.TARGET_NOT_FOUND,
    RefusalCode.TARGETS_SWITCHED_OFF: refusals.TARGETS_SWITCHED_OFF,
    RefusalCode.NO_CAPACITY: refusals.NO_CAPACITY,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with its reason; `route` is set if it got as far as one the caller may see.

    `message` is of this request alone, "" where the code says it all. `switch` is the kill switch
    that was met, `rule_id` the rule that had chosen the targets, `param` the member at fault, and
    `assignments` what experiments had made of the request.
    """

    code: RefusalCode
    route: RouteRecord | None = None
    message: str = ""
    switch: SwitchRecord | None = None
    rule_id: str | None = None
    param: str | None = None
    assignments: tuple[Assignment, ...] = ()

    @property
    def words(self) -> str:
        """What the caller is told; "" of a request for which its member at fault isn't known."""
        words = self.message or _WORDS.get(self.code, "")
        reason = "" if self.switch is None else self.switch.reason
        return f"{words} Reason: {reason}" if reason else words


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
    """One destination with all that an attempt on it needs of the snapshot: a `Seat` that can be
    used, and what the request costs there at most.
    """

    target: TargetRecord
    pool: PoolRecord
    price: PriceUsed | None
    cost_max_nanousd: int | None
    max_context_tokens: int | None = None
    fallbacks: int = 0
    bridge: Endpoint | None = None
    stands_in: bool = False


@frozen
class Plan:
    """The route taken and its targets: lower tiers first, inside one in an order drawn by weight.

    Targets that have the request's endpoint come before those of their tier that are asked in the
    words of another.

    They are those of the rule that matched, if one did; where an experiment says so, those of the
    variant that was assigned, then the control's. `cost_max_nanousd` is the bound at the dearest
    target, None as soon as one has no price. `at` is seconds since the epoch, `u` the chance it was
    drawn with: the same inputs give the same plan. Requests of one `affinity` belong
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
    assignments: tuple[Assignment, ...] = ()


_NOBODY: tuple[LeftOut, ...] = ()
_UNTESTED: tuple[Assignment, ...] = ()


def plan_request(
    snapshot: ConfigSnapshot,
    identity: KeyRecord,
    *,
    request: RequestFacts,
    now: float,
    u: float,
    offers: Offers = EVERYTHING,
    ground: Groundwork | None = None,
    way: Way | None = None,
) -> Plan | Refusal:
    """Find the route the caller named, if the key may use it, and order its targets by `u`.

    Left out are targets that don't answer the request's endpoint (`offers` is what backends can
    do), whose pool doesn't run, that are switched off, and whose context is too small if another's
    is not. `ground` is the groundwork of this snapshot, these offers and this time, and
    `way` what it says of the key and the name; they save time only.
    """
    ground = ground or Groundwork(snapshot, offers, now)
    way = way or ground.way(identity, request.model)
    if way is None or snapshot.thrown:
        refusal = _refusal_of(snapshot, identity, way, now=now)
        if refusal is not None:
            return refusal
        assert way is not None
    route, standing = way.route, way.standing
    if request.tags or request.priority is not None or request.task is not None:
        standing = standing_of(request, identity, route)
    rule, arm, assignments = None, None, _UNTESTED
    endpoint, may_bridge = request.endpoint, request.is_bridgeable
    if route.rules or way.experiments:
        case = _circumstances(snapshot, route, identity, request, standing=standing, now=now)
        if way.experiments:
            assignments = assign(way.experiments, case, u)
            arm = arm_of(assignments)
        if request.target_id is None:
            rule = matching_rule(route, case)
    if request.target_id is not None:
        chosen = _asked_for(way, request.target_id)
        if not chosen:
            return Refusal(RefusalCode.TARGET_NOT_FOUND, route, assignments=assignments)
        line_up = ground.line_up_of(chosen, endpoint, may_bridge=may_bridge)
    elif rule is None and arm is None and may_bridge:
        line_up = way.line_ups.get(endpoint) or ground.line_up_by(way, endpoint)
    else:
        line_up = ground.line_up(route, rule, endpoint, may_bridge=may_bridge, arm=arm)
    rule_id = None if rule is None else rule.id
    if line_up.chosen and not line_up.fitting:
        found = _unfit(snapshot, route, line_up, endpoint, offers=offers)
        return replace(found, rule_id=rule_id, assignments=assignments)
    plan = _plan(snapshot, identity, route, standing, line_up, request, rule_id, now=now, u=u)
    if not assignments:
        return plan
    if isinstance(plan, Refusal):
        return replace(plan, assignments=assignments)
    return changed(plan, assignments=assignments)


def _unfit(
    snapshot: ConfigSnapshot,
    route: RouteRecord,
    line_up: LineUp,
    endpoint: Endpoint,
    *,
    offers: Offers,
) -> Refusal:
    """The refusal of a request that none of the chosen targets answers."""
    if line_up.unreached:
        return Refusal(RefusalCode.NOT_BRIDGEABLE, route)
    asked = replace(route, targets=line_up.chosen)
    message = misfit(snapshot, asked, endpoint, offers=offers)
    return Refusal(RefusalCode.WRONG_ENDPOINT, route, message, param="model")


def _plan(
    snapshot: ConfigSnapshot,
    identity: KeyRecord,
    route: RouteRecord,
    standing: Standing,
    line_up: LineUp,
    request: RequestFacts,
    rule_id: str | None,
    *,
    now: float,
    u: float,
) -> Plan | Refusal:
    """The plan over those of a line-up that can be used now."""
    output_tokens_max = bound_output_tokens(
        request.output_tokens_requested,
        answers=request.answers,
        default_tokens=route.default_max_output_tokens,
    )
    prompt_tokens_max = request.prompt_tokens_max
    seat, left_out = line_up.sole, _NOBODY
    if seat is not None and not snapshot.thrown:
        dearest = cost_at_most(prompt_tokens_max, output_tokens_max, seat.price)
        targets: tuple[PlannedTarget, ...] = (_planned(seat, dearest),)
    else:
        most = (prompt_tokens_max, output_tokens_max)
        usable, without = _usable(snapshot, line_up.order or line_up.drawn(u), most, now=now)
        if not usable:
            return _nobody(route, without, rule_id=rule_id)
        if len(usable) > 1:
            usable = _with_enough_context(usable, request, without)
        dearest = _dearest([one.cost_max_nanousd for one in usable])
        without += [LeftOut(one, LeftOutReason.WRONG_ENDPOINT) for one in line_up.misfits]
        without += [LeftOut(one, LeftOutReason.NOT_BRIDGEABLE) for one in line_up.unreached]
        targets, left_out = tuple(usable), tuple(without)
    return Plan(
        route,
        targets,
        prompt_tokens_max,
        output_tokens_max,
        dearest,
        now,
        u,
        request,
        standing,
        request.session or request.end_user or identity.id,
        rule_id,
        left_out,
    )


def _planned(seat: Seat, cost: int | None) -> PlannedTarget:
    assert seat.pool is not None
    return PlannedTarget(
        seat.target,
        seat.pool,
        seat.price,
        cost,
        seat.max_context_tokens,
        seat.fallbacks,
        seat.bridge,
        seat.stands_in,
    )


def _usable(
    snapshot: ConfigSnapshot, seats: Sequence[Seat], most: tuple[int, int], *, now: float
) -> tuple[list[PlannedTarget], list[LeftOut]]:
    """Those whose pool runs and isn't switched off, and why the others are left out."""
    prompt_tokens_max, output_tokens_max = most
    targets: list[PlannedTarget] = []
    left_out: list[LeftOut] = []
    for seat in seats:
        if not seat.runs or seat.pool is None:
            left_out.append(LeftOut(seat.target.id, LeftOutReason.NOT_RUNNING))
            continue
        if snapshot.thrown:
            switch = switch_on_pool(snapshot, seat.pool, now=now)
            if switch is not None:
                left_out.append(LeftOut(seat.target.id, LeftOutReason.SWITCHED_OFF, switch))
                continue
        cost = cost_at_most(prompt_tokens_max, output_tokens_max, seat.price)
        targets.append(_planned(seat, cost))
    return targets, left_out


def _refusal_of(
    snapshot: ConfigSnapshot, identity: KeyRecord, way: Way | None, *, now: float
) -> Refusal | None:
    """Why there is no way: the caller or the route is switched off, or the key may not use it."""
    switch = switch_on_caller(snapshot, identity, now=now)
    if switch is not None:
        return Refusal(RefusalCode.SWITCHED_OFF, switch=switch)
    if way is None:
        return Refusal(RefusalCode.MODEL_NOT_FOUND)
    switch = switch_on_route(snapshot, way.route, now=now)
    if switch is not None:
        return Refusal(RefusalCode.SWITCHED_OFF, way.route, switch=switch)
    return None


def _circumstances(
    snapshot: ConfigSnapshot,
    route: RouteRecord,
    identity: KeyRecord,
    request: RequestFacts,
    *,
    standing: Standing,
    now: float,
) -> Circumstances:
    owner = snapshot.organisations.get(route.organisation_id)
    zone = "UTC" if owner is None else owner.time_zone
    return Circumstances(request, standing, identity, now, zone)


def _asked_for(way: Way, target_id: str) -> tuple[TargetRecord, ...]:
    """The target of this id alone, wherever it stands and whatever its weight."""
    route = way.route
    named = [route.targets, *(rule.targets for rule in route.rules)]
    named += [variant.targets for one in way.experiments for variant in one.variants]
    for targets in named:
        for target in targets:
            if target.id == target_id:
                return (replace(target, weight=1),)
    return ()


def _nobody(route: RouteRecord, left_out: Sequence[LeftOut], *, rule_id: str | None) -> Refusal:
    """The refusal of a request that no target is left for: for want of any, or switched off."""
    switch = next((one.switch for one in left_out if one.switch is not None), None)
    code = RefusalCode.NO_CAPACITY if switch is None else RefusalCode.TARGETS_SWITCHED_OFF
    return Refusal(code, route, switch=switch, rule_id=rule_id)


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


def _dearest(costs: Sequence[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None

"""An exchange and the room there is: what it is spared while its route is busy, and when it may go.

A request waits only if every worker it could go to is full; finding that out costs the others one
comparison.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference.contract.kinds import DegradationStep
from inference.decisions.degradation.registry import degraded
from inference.decisions.dispatch import Tried, is_repeat
from inference.decisions.plan import Plan, Refusal
from inference.decisions.queueing import work_of
from inference.decisions.switched import left_of_plan
from inference.errors import GatewayError, NoCapacity, QueueFull, QueueTimeout, RequestShed
from inference.gateway.attempts import Attempt
from inference.gateway.dispatch import Placement, Prompt
from inference.gateway.refusals import refusal_of
from inference.gateway.trimming import may_be_trimmed, trimmed
from inference.gateway.variants import of_one_variant
from inference.observability.queue_metrics import Shed
from inference.queues.tickets import Ticket

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange


def degrade(exchange: "Exchange", plan: Plan) -> Plan:
    """The plan as the steps in force at its route leave it, or raise RequestShed.

    A request whose answers are to be shorter is changed as well.
    """
    services, request = exchange.services, exchange.request
    route = plan.route
    steps = services.ladders.steps(route) if route.degradation else ()
    if not steps or request is None:
        return plan
    if not may_be_trimmed(request):
        steps = tuple(step for step in steps if step is not DegradationStep.TRIM_BATCH)
    serving = degraded(plan, steps)
    if serving.output_tokens_limit is not None and not serving.is_shed:
        # a budget may have shortened it more
        own = serving.plan.output_tokens_max // max(serving.plan.facts.answers, 1)
        most = min(serving.output_tokens_limit, own)
        exchange.request = trimmed(request, endpoint=exchange.endpoint, most=most)
    exchange.degraded = serving.changed_by
    for step in serving.changed_by:
        services.metrics.queue.degraded(route.id, step)
    if serving.is_shed:
        pools = _pools(plan, ())
        priority = plan.standing.priority
        raise RequestShed(
            retry_after_s=services.waiting.shed(route, priority, pools, Shed.DEGRADED)
        )
    exchange.plan = serving.plan
    return serving.plan


def still_on(exchange: "Exchange", plan: Plan) -> Plan:
    """The plan without what was switched off since, or raise the refusal a new one would be."""
    if exchange.services.snapshots.current is exchange.snapshot:
        return plan
    left = _left_of(exchange, plan)
    if isinstance(left, Refusal):
        raise refusal_of(left, now=exchange.services.clock())
    return left


async def place_in_turn(
    exchange: "Exchange", plan: Plan, tried: Sequence[Tried], prompt: Prompt, *, counted_s: float
) -> Placement | None:
    """Wait until a worker has room for the next attempt; None if a further one got none.

    A first attempt that gets none raises QueueFull, QueueTimeout or NoCapacity; any raises what
    `still_on` does. A further one that gets none costs no retry, which was counted at that time.
    """
    placement: Placement | None = None
    try:
        placement = await _in_turn(exchange, plan, tried, prompt)
    finally:
        if placement is None and tried:
            dispatcher = exchange.services.dispatcher
            dispatcher.take_back(plan.route, is_retry=True, at_s=counted_s)
    return placement


async def _in_turn(
    exchange: "Exchange", plan: Plan, tried: Sequence[Tried], prompt: Prompt
) -> Placement | None:
    services = exchange.services
    while True:
        plan = still_on(exchange, plan)
        now_s = services.stopwatch()
        rooms = services.dispatcher.free_rooms(plan, tried, now_s=now_s)
        if rooms:
            return services.dispatcher.place(plan, rooms, prompt=prompt, now_s=now_s)
        waited_s = (exchange.queued_ms or 0.0) / 1000
        wait_s = plan.route.max_queue_wait_ms / 1000 - waited_s
        ticket = _ticket(exchange, plan, tried, since_s=now_s - waited_s)
        try:
            if wait_s <= 0 < waited_s:
                raise _timeout(exchange, ticket)
            await services.waiting.wait(ticket, wait_s=wait_s, silence=exchange.silence)
        except (QueueFull, QueueTimeout, NoCapacity):
            if tried:
                return None
            raise
        finally:
            exchange.queued_ms = round((services.stopwatch() - ticket.since_s) * 1000, 3)


def take_hedge(exchange: "Exchange", plan: Plan, tried: Sequence[Tried]) -> Attempt | None:
    """Take a worker for a second attempt beside one that was sent, if there is one to spare."""
    dispatcher, started = exchange.services.dispatcher, exchange.now()
    left = _left_of(exchange, plan)
    if isinstance(left, Refusal):
        return None
    plan = left
    if exchange.assignments:
        plan = of_one_variant(plan, exchange.attempts[-1].planned)
    rooms = dispatcher.free_rooms(plan, tried, now_s=started.mono_s)
    if not rooms or is_repeat(rooms, tried) or rooms[0].is_panic or _is_busy(exchange, plan):
        return None
    if not dispatcher.may_retry(plan.route, started.mono_s):
        return None
    prompt = exchange.routed_prompt()
    placement = dispatcher.place(plan, rooms, prompt=prompt, now_s=started.mono_s)
    attempt = exchange.begin_attempt(plan, placement, started)
    attempt.is_hedge = True
    return attempt


def turn_record(exchange: "Exchange") -> dict[str, object]:
    """What the decision record says of it; nothing if there was nothing."""
    record: dict[str, object] = {}
    if exchange.degraded:
        record["degraded"] = [step.value for step in exchange.degraded]
    if exchange.queued_ms:
        record["queued_ms"] = exchange.queued_ms
    return record


def _is_busy(exchange: "Exchange", plan: Plan) -> bool:
    """Whether somebody waits for the plan's pools, or its route serves less well for now."""
    services = exchange.services
    if plan.route.degradation and services.ladders.steps(plan.route):
        return True
    return services.waiting.queued(_pools(plan, ())) > 0


def _left_of(exchange: "Exchange", plan: Plan) -> Plan | Refusal:
    """What switches leave of a plan; it was made by those of the exchange's own snapshot."""
    current = exchange.services.snapshots.current
    if current is None or current is exchange.snapshot or exchange.identity is None:
        return plan
    return left_of_plan(current, exchange.identity, plan, now=exchange.services.clock())


def _timeout(exchange: "Exchange", ticket: Ticket) -> QueueTimeout:
    """The end of a request that has no time left to wait once more."""
    waiting = exchange.services.waiting
    retry_after_s = waiting.shed(ticket.route, ticket.priority, ticket.pools, Shed.TIMEOUT)
    return QueueTimeout(retry_after_s=retry_after_s)


def _ticket(exchange: "Exchange", plan: Plan, tried: Sequence[Tried], *, since_s: float) -> Ticket:
    services, identity = exchange.services, exchange.identity
    assert identity is not None

    def fits(worker_id: str) -> bool:
        left = _left_of(exchange, plan)
        if isinstance(left, Refusal):
            return False
        rooms = services.dispatcher.free_rooms(left, tried, now_s=services.stopwatch())
        return any(one.id == worker_id for room in rooms for one in room.workers)

    def refusal() -> GatewayError | None:
        left = _left_of(exchange, plan)
        return refusal_of(left, now=services.clock()) if isinstance(left, Refusal) else None

    return Ticket(
        route=plan.route,
        priority=plan.standing.priority,
        path=(identity.organisation_id, identity.team_id, identity.id),
        work=work_of(plan),
        pools=_pools(plan, tried),
        held_bytes=exchange.body_bytes,
        fits=fits,
        refusal=refusal,
        since_s=since_s,
        turn=asyncio.get_running_loop().create_future(),
    )


def _pools(plan: Plan, tried: Sequence[Tried]) -> tuple[str, ...]:
    """The pools of a plan, each once: first those it hasn't tried."""
    seen = {one.target_id for one in tried}
    targets = sorted(plan.targets, key=lambda one: one.target.id in seen) if seen else plan.targets
    return tuple(dict.fromkeys(one.pool.id for one in targets))

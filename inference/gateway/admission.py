"""An exchange and its limits: who fails before there is a plan, and what attempts used."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from inference.contract.kinds import ChargeKind, Outcome
from inference.decisions.admission import Spent
from inference.decisions.cost import tokens_not_generated
from inference.decisions.dispatch import Tried
from inference.decisions.endpoints import GENERATING
from inference.decisions.limiting import bound_to_send
from inference.decisions.plan import Plan
from inference.errors import (
    BudgetExceeded,
    GatewayError,
    LimitsUnavailable,
    NoCapacity,
    QueueFull,
    QueueTimeout,
    RateLimitExceeded,
    RequestShed,
)
from inference.gateway.attempts import NO_USAGE, Attempt, end_all
from inference.gateway.schemas import InferenceRequest
from inference.gateway.trimming import trimmed
from inference.limits.admissions import Admission

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

log = structlog.get_logger(__name__)

_FOUND_NO_PLACE = (
    *(NoCapacity, QueueFull, QueueTimeout, RequestShed),
    *(RateLimitExceeded, LimitsUnavailable),  # of every model it could have gone to
)


async def admit_unplanned(exchange: "Exchange") -> None:
    """Count a request that is refused before it has a plan, so that a loop of them meets a limit.

    Raises RateLimitExceeded. A strict limit that can't be asked for changes nothing: it is refused.
    """
    try:
        exchange.limit(None)
        await exchange.admit()
    except LimitsUnavailable:
        return


async def next_within_limits(
    exchange: "Exchange", admission: Admission, plan: Plan, tried: Sequence[Tried]
) -> Attempt | None:
    """Take a worker for the next attempt, of a model whose limits it keeps.

    Targets of other models are passed over. A request that nothing is left of for this reason
    raises RateLimitExceeded or LimitsUnavailable, unless it has failed in other ways already. None
    also if budgets have no room for what a further attempt may cost.
    """
    while True:
        closed = admission.closed
        if closed:
            left = tuple(one for one in plan.targets if one.pool.model_id not in closed)
            plan = replace(plan, targets=left)
        attempt = await exchange.next_attempt(plan, tried) if plan.targets else None
        if attempt is None and closed and not tried:
            raise admission.refuse()
        if attempt is None or await may_use(exchange, attempt):
            return attempt
        if admission.is_spent:
            return None


async def may_use(exchange: "Exchange", attempt: Attempt) -> bool:
    """Take what limits of the attempt's model want; if they are short, it never was an attempt."""
    admission, model_id = exchange.admission, attempt.planned.pool.model_id
    if admission is None:
        return True
    if not await admission.enter(model_id):
        withdraw(exchange, attempt, admission.closed[model_id])
        return False
    if attempt.number > 1 and not await admission.covers(_cost_at_most(exchange)):
        withdraw(exchange, attempt, BudgetExceeded())
        return False
    return True


def _cost_at_most(exchange: "Exchange") -> int:
    """The most that all attempts so far may be booked with."""
    return sum(
        (one.planned.cost_max_nanousd if one.charge is None else one.charge.cost_nanousd) or 0
        for one in exchange.attempts
    )


def withdraw(exchange: "Exchange", attempt: Attempt, error: GatewayError) -> None:
    """Undo an attempt of which nothing was sent: it never was one, and spends no retry."""
    assert exchange.plan is not None
    is_retry = attempt.number > 1
    attempt.end(exchange.services.stopwatch(), error)
    exchange.attempts.remove(attempt)
    exchange.services.dispatcher.take_back(
        exchange.plan.route, is_retry=is_retry, at_s=attempt.counted_s
    )


def with_bound(exchange: "Exchange", plan: Plan, request: InferenceRequest) -> InferenceRequest:
    """The request as it is sent: with a maximum of its own if a strict limit counts on one."""
    admission = exchange.admission
    most = None if admission is None or not admission.caps_output else bound_to_send(plan)
    if admission is None or most is None:
        return request
    exchange.request = bounded = trimmed(request, endpoint=exchange.endpoint, most=most)
    if bounded is not request:
        admission.output_tokens_sent = most
        if exchange.caching is not None:
            exchange.caching.unbounded = request
    return bounded


def give_back(exchange: "Exchange", error: GatewayError) -> None:
    """Have a planned request that found no place anywhere use nothing of any limit."""
    if exchange.admission is None or exchange.plan is None or exchange.attempts:
        return
    if isinstance(error, _FOUND_NO_PLACE):
        exchange.admission.undo()


def end_and_settle(
    exchange: "Exchange", admission: Admission, error: GatewayError | None, now_s: float
) -> bool:
    """End what still runs and count its use; True if a limit counts more than was taken of it."""
    is_owed = False
    try:
        end_all(exchange.attempts, now_s, error)
    finally:
        is_owed = admission.settle(lambda: map(_spent, exchange.attempts))
    return is_owed


def count_spared(exchange: "Exchange", outcome: Outcome) -> None:
    """Take note of what an engine was spared by a caller that left or an answer cut short."""
    plan, request = exchange.plan, exchange.request
    charge = exchange.attempts[-1].charge if exchange.attempts else None
    is_cut = outcome is Outcome.ERROR and charge is not None and charge.kind is ChargeKind.CUT
    if plan is None or request is None or exchange.endpoint not in GENERATING:
        return
    if is_cut or outcome is Outcome.CANCELLED:
        exchange.tokens_not_generated = spared = tokens_not_generated(
            NO_USAGE if charge is None else charge.usage,
            output_tokens_requested=request.facts.output_tokens_requested,
            output_tokens_max=plan.output_tokens_max,
        )
        if spared:
            exchange.services.metrics.spared(plan.route.id, spared)


def log_failure(exchange: "Exchange", error: GatewayError | None) -> None:
    """Say in the log that a request failed, and where it had been sent."""
    snapshot, plan = exchange.snapshot, exchange.plan
    log.warning(
        "request failed",
        request_id=exchange.event_id,
        snapshot_version=None if snapshot is None else snapshot.version,
        route_id=None if plan is None else plan.route.id,
        code=None if error is None else error.code.value,
        workers=[attempt.worker_id for attempt in exchange.attempts],
        upstream_status=getattr(error, "upstream_status", None),
    )


def _spent(attempt: Attempt) -> Spent:
    charge = attempt.charge
    if charge is None:
        return Spent(None, attempt.was_sent, is_final=False, model_id=attempt.planned.pool.model_id)
    return Spent(
        None if charge.usage == NO_USAGE else charge.usage,
        attempt.was_sent,
        is_final=attempt.error is None,
        http_status=charge.http_status,
        model_id=charge.model_id,
        cost_nanousd=charge.cost_nanousd or 0,
    )

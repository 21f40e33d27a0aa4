"""The one pipeline: identify, understand, plan, and try workers until one has answered.

A straight line. Whatever leaves it (an answer, an error, a client that left, the time limit, a
server that stops) goes through `Exchange.close`, exactly once.
"""

import asyncio

from inference.contract.kinds import Outcome
from inference.contract.snapshot import RouteRecord, TargetRecord
from inference.decisions.dispatch import Tried
from inference.errors import (
    AttemptOverdue,
    ClientLeft,
    Fault,
    GatewayError,
    GatewayStopping,
    InternalError,
    NoCapacity,
    UpstreamError,
    UpstreamPromptTooLong,
)
from inference.gateway.attempts import Attempt
from inference.gateway.downstream import respond
from inference.gateway.error_responses import error_frame, error_response
from inference.gateway.exchange import Exchange
from inference.gateway.failures import failure_of_refusal, failure_of_status
from inference.gateway.headers import answer_headers, upstream_headers, upstream_request_id
from inference.gateway.keepalive import KeepAlive
from inference.gateway.relay import relay_stream, relay_whole
from inference.gateway.schemas import InferenceRequest, upstream_body
from inference.workers.answers import Answer, Pulse, Timeouts
from inference.workers.base import BackendTraits
from inference.workers.connections import Request
from inference.workers.registry import REGISTRY as BACKENDS

# An error's body is read for its message only.
_MAX_ERROR_BYTES = 1024 * 1024


async def run(exchange: Exchange) -> None:
    """Answer one request; when this returns or raises, the exchange is closed."""
    try:
        await _answer(exchange)
    except GatewayError as error:
        await _fail(exchange, error)
    except asyncio.CancelledError:
        # this is the whole of its task, so what is written now is the last thing the task does
        await _fail(exchange, exchange.interruption or GatewayStopping())
    finally:
        if not exchange.is_closed:
            fault = InternalError()
            await exchange.close(Outcome.ERROR, http_status=fault.http_status, error=fault)


async def _answer(exchange: Exchange) -> None:
    exchange.identify()
    request = await exchange.understand()
    plan = exchange.make_plan(request)
    tried: list[Tried] = []
    failures: list[UpstreamError] = []
    while (attempt := await exchange.next_attempt(plan, tried)) is not None:
        await exchange.open_books(plan, attempt)
        try:
            await _attempt_in_time(exchange, attempt, request)
        except UpstreamError as error:
            attempt.end(exchange.services.stopwatch(), error)
            if error.fault is not Fault.CALLER:
                exchange.services.metrics.failed_attempt(attempt.planned.pool.id, error.code)
            if not error.is_retryable or exchange.downstream.has_started:
                raise
            failures.append(error)
            tried.append(_tried(attempt, error))
        else:
            return
    if not failures:
        raise NoCapacity
    raise failures[0 if exchange.is_out_of_retries else -1]


def _tried(attempt: Attempt, error: UpstreamError) -> Tried:
    return Tried(
        attempt.planned.target.id,
        attempt.worker_id,
        may_repeat=error.may_repeat,
        was_too_long=isinstance(error, UpstreamPromptTooLong),
    )


async def _attempt_in_time(exchange: Exchange, attempt: Attempt, request: InferenceRequest) -> None:
    """Make an attempt within its target's time limit, if it has one; the route's is the request's.

    The limit is lifted once the answer is whole: what is left then is not the worker's.
    """
    total_ms = attempt.planned.target.total_timeout_ms
    if total_ms is None:
        await _attempt(exchange, attempt, request)
        return
    try:
        async with asyncio.timeout(total_ms / 1000) as attempt.limit:
            await _attempt(exchange, attempt, request)
    except TimeoutError as error:
        raise AttemptOverdue from error
    finally:
        attempt.limit = None


async def _attempt(exchange: Exchange, attempt: Attempt, request: InferenceRequest) -> None:
    """Send the request to one worker and pass its answer on."""
    assert exchange.plan is not None
    traits = BACKENDS[attempt.planned.pool.backend]
    alive = KeepAlive(exchange, exchange.plan.route.keep_alive_ms if request.is_stream else None)
    answer = await _send(exchange, attempt, request, traits=traits, pulse=alive.pulse)
    if not 200 <= answer.status < 300:
        raise await _failure(attempt, answer, traits)
    if request.is_stream:
        await relay_stream(exchange, attempt, answer, request=request, traits=traits, alive=alive)
    else:
        await relay_whole(exchange, attempt, answer)


async def _failure(attempt: Attempt, answer: Answer, traits: BackendTraits) -> UpstreamError:
    """What an answer other than 2xx means; its body is read only if that depends on it."""
    failure = failure_of_status(
        answer.status, saturated=traits.saturated_statuses, retry_after=answer.retry_after
    )
    if failure is not None:
        return failure
    body = await answer.read_all(_MAX_ERROR_BYTES)
    return failure_of_refusal(answer.status, body, secret=attempt.secret)


async def _send(
    exchange: Exchange,
    attempt: Attempt,
    request: InferenceRequest,
    *,
    traits: BackendTraits,
    pulse: Pulse | None,
) -> Answer:
    address, pool = attempt.address, attempt.planned.pool
    outgoing = Request(
        path=address.paths[exchange.endpoint],
        headers=upstream_headers(
            address,
            request_id=upstream_request_id(exchange.event_id, attempt.number),
            is_stream=request.is_stream,
            forwarded=exchange.downstream.headers.forwarded,
        ),
        body=upstream_body(
            request, served_model=pool.served_model_name, usage_options=traits.usage_options
        ),
    )
    assert exchange.plan is not None
    timeouts = _timeouts(exchange.plan.route, attempt.planned.target)
    attempt.was_sent = True
    attempt.answer = await address.origin.post(outgoing, timeouts, pulse)
    return attempt.answer


def _timeouts(route: RouteRecord, target: TargetRecord) -> Timeouts:
    """The target's own where it has some, else the route's."""
    return Timeouts(
        connect_s=(target.connect_timeout_ms or route.connect_timeout_ms) / 1000,
        first_byte_s=(target.first_byte_timeout_ms or route.first_byte_timeout_ms) / 1000,
        idle_s=(target.idle_timeout_ms or route.idle_timeout_ms) / 1000,
    )


async def _fail(exchange: Exchange, error: GatewayError) -> None:
    """End the exchange with an error: a response if nothing was sent yet, else a broken stream."""
    downstream = exchange.downstream
    if isinstance(error, ClientLeft):
        await exchange.close(Outcome.CANCELLED, http_status=error.http_status, error=error)
        return
    if downstream.has_started:
        await exchange.close(Outcome.ERROR, http_status=200, error=error)
        await downstream.abort(error_frame(error))
        return
    outcome = Outcome.ERROR if exchange.attempts else Outcome.REFUSED
    response = error_response(error)
    await exchange.close(outcome, http_status=response.status, error=error)
    headers = answer_headers(exchange.event_id, content_length=len(response.body))
    headers += response.headers + exchange.debug_headers()
    await respond(downstream, response.status, headers, response.body)

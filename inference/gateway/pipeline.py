"""The one pipeline: identify, understand, plan, admit, and try workers until one has answered.

A straight line. Whatever leaves it (an answer, an error, a client that left, the time limit, a
server that stops) goes through `Exchange.close`, exactly once.
"""

import asyncio

from inference.contract.kinds import Outcome
from inference.errors import (
    ClientLeft,
    GatewayError,
    GatewayStopping,
    InternalError,
    NoCapacity,
    UpstreamError,
)
from inference.gateway.admission import admit_unplanned, give_back, next_within_limits, with_bound
from inference.gateway.attempts import Attempt
from inference.gateway.cache_start import begin_caching
from inference.gateway.cached import Caching
from inference.gateway.disclosures import disclosed
from inference.gateway.easing import admitted
from inference.gateway.error_responses import error_response
from inference.gateway.exchange import Exchange
from inference.gateway.headers import answer_headers
from inference.gateway.hedging import Race
from inference.gateway.keepalive import KeepAlive
from inference.gateway.relay import (
    broken_off,
    open_stream,
    pass_stream,
    read_whole,
    send_whole,
    understood,
)
from inference.gateway.renewal import renew
from inference.gateway.schemas import InferenceRequest
from inference.gateway.sending import Trials, ask, in_time
from inference.gateway.serving import answered_from_cache, has_joined
from inference.gateway.turns import degrade
from inference.workers.registry import REGISTRY as BACKENDS


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
        if exchange.caching is not None:
            exchange.caching.abandon()
        if not exchange.is_closed:
            fault = InternalError()
            await exchange.close(Outcome.ERROR, http_status=fault.http_status, error=fault)


async def _answer(exchange: Exchange) -> None:
    exchange.identify()
    try:
        request = await exchange.understand()
        plan = exchange.make_plan(request)
        if plan.route.cache_policy_id is not None or plan.assignments:
            begin_caching(exchange, plan, request)
    except ClientLeft:
        raise
    except GatewayError:
        await admit_unplanned(exchange)
        raise
    if exchange.caching is not None:
        if await _is_kept(exchange, exchange.caching):
            return
        request = exchange.request or request
    if (admission := exchange.limit(plan)) is not None:
        if admission.is_budgeted:
            plan = await admitted(exchange, plan)
            request = exchange.request or request
        else:
            await exchange.admit()
    if plan.route.degradation:
        plan = degrade(exchange, plan)
        request = exchange.request or request
    if exchange.admission is not None:
        request = with_bound(exchange, plan, request)
    alive = None
    if request.is_stream or plan.route.hedge_after_ms is not None:
        alive = KeepAlive(exchange, plan.route.keep_alive_ms if request.is_stream else None)
        exchange.silence = alive.silence
    if exchange.caching is not None and await has_joined(exchange, exchange.caching, alive):
        return
    trials = Trials(exchange)
    while True:
        if exchange.admission is None:
            attempt = await exchange.next_attempt(plan, trials.tried)
        else:
            attempt = await next_within_limits(exchange, exchange.admission, plan, trials.tried)
        if attempt is None:
            break
        if trials.tried:
            exchange.services.metrics.retried(plan.route.id)
        await exchange.open_books(plan, attempt)
        if alive is not None and plan.route.hedge_after_ms is not None:
            if await _raced(exchange, attempt, request, trials=trials, alive=alive):
                return
            continue
        try:
            step = _attempt(exchange, attempt, request, alive)
            await (step if attempt.due_s is None else in_time(attempt, step))
        except UpstreamError as error:
            trials.note(attempt, error)
        else:
            return
    raise trials.failure() if trials.failures else NoCapacity


async def _is_kept(exchange: Exchange, caching: Caching) -> bool:
    """Answer from a cache, if it may be; a stale answer is asked for anew."""
    is_answered = await answered_from_cache(exchange, caching)
    if is_answered and caching.is_stale:
        renew(exchange, caching, run)
    return is_answered


async def _attempt(
    exchange: Exchange, attempt: Attempt, request: InferenceRequest, alive: KeepAlive | None
) -> None:
    """Send the request to one worker and pass its answer on."""
    traits = BACKENDS[attempt.planned.pool.backend]
    if alive is None:  # it is no stream
        answer = await ask(exchange, attempt, request, traits=traits, pulse=None)
        if (body := answer.taken_whole()) is not None:
            body = understood(exchange, attempt, body)
        else:
            body = await read_whole(exchange, attempt, answer)
        await send_whole(exchange, attempt, body)
        return
    if attempt.number > 1:
        alive.count_anew()
    answer = await ask(exchange, attempt, request, traits=traits, pulse=alive.pulse)
    data = await open_stream(exchange, attempt, answer, request=request, traits=traits, alive=alive)
    await pass_stream(exchange, attempt, data, alive)


async def _raced(
    exchange: Exchange,
    attempt: Attempt,
    request: InferenceRequest,
    *,
    trials: Trials,
    alive: KeepAlive,
) -> bool:
    """The same with a second worker if the first is slow; False if another attempt may be made."""
    assert exchange.plan is not None
    hedge_after_s = (exchange.plan.route.hedge_after_ms or 0) / 1000
    race = Race(exchange, request, trials=trials, alive=alive)
    data = await race.run(attempt, hedge_after_s=hedge_after_s)
    winner = race.winner
    if winner is None or data is None:
        return False
    try:
        if request.is_stream:
            await in_time(winner, pass_stream(exchange, winner, data, alive))
        else:
            await in_time(winner, send_whole(exchange, winner, data))
    except UpstreamError as error:
        trials.note(winner, error)
        return False
    return True


async def _fail(exchange: Exchange, error: GatewayError) -> None:
    """End the exchange with an error: a response if nothing was sent yet, else a broken stream."""
    downstream = exchange.downstream
    give_back(exchange, error)
    if isinstance(error, ClientLeft):
        await exchange.close(Outcome.CANCELLED, http_status=error.http_status, error=error)
        return
    if downstream.has_started:
        await exchange.close(Outcome.ERROR, http_status=200, error=error)
        await downstream.abort(broken_off(exchange, error))
        return
    outcome = Outcome.ERROR if exchange.attempts else Outcome.REFUSED
    response = error_response(error, exchange.dialect)
    await exchange.close(outcome, http_status=response.status, error=error)
    headers = answer_headers(
        exchange.event_id, content_length=len(response.body), dialect=exchange.dialect
    )
    headers += response.headers + disclosed(exchange)
    await downstream.respond(response.status, headers, response.body)

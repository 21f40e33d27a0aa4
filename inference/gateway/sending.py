"""One attempt's request on its way to a worker, up to its answer's head; and what failed."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from inference.decisions.dispatch import Tried, failure_to_tell
from inference.errors import AttemptOverdue, Fault, UpstreamError, UpstreamPromptTooLong
from inference.gateway.attempts import Attempt
from inference.gateway.bridged import in_other_words
from inference.gateway.exchange import Exchange
from inference.gateway.failures import failure_of_refusal, failure_of_status
from inference.gateway.headers import upstream_headers, upstream_request_id
from inference.gateway.schemas import InferenceRequest, upstream_body
from inference.gateway.variants import varied
from inference.gateway.vectors import request_for
from inference.workers.answers import Answer
from inference.workers.base import BackendTraits
from inference.workers.connections import Request
from inference.workers.pace import Pulse

# An error's body is read for its message only.
_MAX_ERROR_BYTES = 1024 * 1024

T = TypeVar("T")


class Trials:
    """The attempts of one request that failed in a way another may mend, and how they failed."""

    __slots__ = ("_exchange", "failures", "tried")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.tried: list[Tried] = []
        self.failures: list[UpstreamError] = []

    def note(self, attempt: Attempt, error: UpstreamError, *, has_other: bool = False) -> None:
        """End a failed attempt; raise its error if that is the end of the request.

        It isn't while another worker that was asked as well may still answer.
        """
        exchange = self._exchange
        attempt.end(exchange.services.stopwatch(), error)
        if error.fault is not Fault.CALLER:
            exchange.services.metrics.failed_attempt(attempt.planned.pool.id, error.code)
        context_tokens = attempt.planned.max_context_tokens
        if isinstance(error, UpstreamPromptTooLong) and context_tokens is not None:
            error.name_limit(context_tokens)
        if not error.is_retryable:
            raise error
        self.failures.append(error)
        self.tried.append(
            Tried(
                attempt.planned.target.id,
                attempt.worker_id,
                may_repeat=error.may_repeat,
                was_too_long=isinstance(error, UpstreamPromptTooLong),
            )
        )
        if exchange.downstream.has_started and not has_other:
            raise self.failure()

    def failure(self) -> UpstreamError:
        """The failure that the caller is told of; there is one."""
        exchange = self._exchange
        assert exchange.plan is not None
        place = failure_to_tell(
            exchange.plan, self.tried, is_out_of_retries=exchange.is_out_of_retries
        )
        return self.failures[place]


async def in_time(attempt: Attempt, step: Awaitable[T]) -> T:
    """Take a step of an attempt within its target's time limit, if it has one.

    The limit counts from the attempt's start, and is lifted once its answer is whole: what is left
    then is not the worker's.
    """
    if attempt.due_s is None:
        return await step
    try:
        async with asyncio.timeout_at(attempt.due_s) as attempt.limit:
            return await step
    except TimeoutError as error:
        raise AttemptOverdue from error
    finally:
        attempt.limit = None


async def ask(
    exchange: Exchange,
    attempt: Attempt,
    request: InferenceRequest,
    *,
    traits: BackendTraits,
    pulse: Pulse | None,
) -> Answer:
    """Send the request to the attempt's worker; its answer begins well, or UpstreamError."""
    planned, plan = attempt.planned, exchange.plan
    address, pool, bridge = attempt.address, planned.pool, planned.bridge
    if exchange.caching is not None:
        request = request_for(exchange.caching, planned, request)
    if exchange.assignments and plan is not None:
        request = varied(exchange, plan, request, is_stood_in=planned.stands_in)
    if bridge is not None:
        request = in_other_words(exchange, request, traits).asked
    callers, number = exchange.downstream.headers, attempt.number
    headers = upstream_headers(
        address,
        request_id=upstream_request_id(exchange.event_id, number),
        is_stream=request.is_stream,
        forwarded=exchange.services.traces.lines(callers, exchange.trace, number),
    )
    body = upstream_body(
        request,
        served_model=pool.served_model_name,
        usage_options=traits.usage_options,
        chat_bound=traits.chat_bound,
    )
    outgoing = Request(address.paths[bridge or exchange.endpoint], headers, body)
    attempt.was_sent = True
    attempt.answer = answer = await address.origin.post(outgoing, attempt.patience.timeouts, pulse)
    if not 200 <= answer.status < 300:
        raise await _failure(attempt, answer, traits)
    return answer


async def _failure(attempt: Attempt, answer: Answer, traits: BackendTraits) -> UpstreamError:
    """What an answer other than 2xx means; its body is read only if that depends on it."""
    failure = failure_of_status(
        answer.status, saturated=traits.saturated_statuses, retry_after=answer.retry_after
    )
    if failure is not None:
        return failure
    body = await answer.read_all(_MAX_ERROR_BYTES)
    return failure_of_refusal(answer.status, body, secret=attempt.secret)

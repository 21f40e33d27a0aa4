"""A second worker asked because the first says nothing: whoever has content first is the answer.

Each attempt runs in a task of its own up to its first content, or its whole answer where it isn't
streamed; comments to the caller are the race's business. Whatever ends a race, no task of it is
left, and an attempt that was overtaken is ended and charged as such.
"""

import asyncio

import structlog

from inference.decisions.dispatch import Tried
from inference.errors import AccountingUnavailable, GatewayError, HedgeLost, UpstreamError
from inference.gateway.admission import may_use
from inference.gateway.attempts import Attempt
from inference.gateway.exchange import Exchange
from inference.gateway.keepalive import KeepAlive
from inference.gateway.relay import open_stream, read_whole, sooner
from inference.gateway.schemas import InferenceRequest
from inference.gateway.sending import Trials, ask, in_time
from inference.gateway.turns import take_hedge
from inference.observability.queue_metrics import Hedge
from inference.workers.registry import REGISTRY as BACKENDS

log = structlog.get_logger(__name__)

Runners = dict["asyncio.Task[bytes]", Attempt]


class Race:
    """The attempts of one race. `run` once; `winner` is the attempt that answers, if one does."""

    def __init__(
        self, exchange: Exchange, request: InferenceRequest, *, trials: Trials, alive: KeepAlive
    ) -> None:
        self.winner: Attempt | None = None
        self._exchange = exchange
        self._request = request
        self._trials = trials
        self._alive = alive
        self._loop = asyncio.get_running_loop()
        self._runners: Runners = {}
        self._hedge: Attempt | None = None

    async def run(self, first: Attempt, *, hedge_after_s: float) -> bytes | None:
        """What the winner gave up to its first content; None if all failed in a way to be mended.

        Raises an UpstreamError that is the request's end.
        """
        due_s: float | None = self._loop.time() + hedge_after_s
        self._start(first)
        try:
            while self._runners and self.winner is None:
                done = await self._wait(due_s)
                data = self._settle(done)
                if self.winner is not None:
                    return data
                if due_s is not None and self._loop.time() >= due_s:
                    due_s = None
                    await self._ask_another(first)
            return None
        finally:
            await self._stop()

    def _start(self, attempt: Attempt) -> None:
        self._runners[self._loop.create_task(self._prepare(attempt))] = attempt

    async def _wait(self, due_s: float | None) -> "set[asyncio.Task[bytes]]":
        """Those that have ended; the caller is sent a comment if it is time."""
        until_due_s = None if due_s is None else max(due_s - self._loop.time(), 0.0)
        done, _ = await asyncio.wait(
            self._runners,
            timeout=sooner(until_due_s, self._alive.left_s),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not done and self._alive.left_s == 0:
            await self._alive.comment()
        return done

    def _settle(self, done: "set[asyncio.Task[bytes]]") -> bytes | None:
        """Take note of who has ended; the first that was started wins if there are several."""
        ended = [task for task in self._runners if task in done]
        first = next((task for task in ended if task.exception() is None), None)
        if first is not None:
            self.winner = self._runners.pop(first)
            return first.result()
        for task in ended:
            error = task.exception()
            attempt = self._runners.pop(task)
            if isinstance(error, UpstreamError):
                self._trials.note(attempt, error, has_other=bool(self._runners))
            elif error is not None:
                raise error
        return None

    async def _ask_another(self, first: Attempt) -> None:
        """Begin the second attempt, if the first gave nothing yet and there is room for it."""
        exchange, plan = self._exchange, self._exchange.plan
        assert plan is not None
        if not self._runners or (first.answer is not None and first.answer.has_body):
            return
        taken = Tried(first.planned.target.id, first.worker_id, may_repeat=False)
        hedge = take_hedge(exchange, plan, [*self._trials.tried, taken])
        if hedge is None:
            exchange.services.metrics.queue.hedged(plan.route.id, Hedge.REFUSED)
            return
        if not await may_use(exchange, hedge):
            exchange.services.metrics.queue.hedged(plan.route.id, Hedge.REFUSED)
            return
        try:
            await exchange.open_books(plan, hedge)
        except AccountingUnavailable:
            return  # which has ended it: without it the request is served as well
        self._hedge = hedge
        self._start(hedge)

    async def _prepare(self, attempt: Attempt) -> bytes:
        return await in_time(attempt, self._up_to_content(attempt))

    async def _up_to_content(self, attempt: Attempt) -> bytes:
        exchange, request = self._exchange, self._request
        traits = BACKENDS[attempt.planned.pool.backend]
        answer = await ask(exchange, attempt, request, traits=traits, pulse=None)
        if not request.is_stream:
            return await read_whole(exchange, attempt, answer)
        quiet = KeepAlive(exchange, None)
        return await open_stream(
            exchange, attempt, answer, request=request, traits=traits, alive=quiet, is_racing=True
        )

    async def _stop(self) -> None:
        """End what still runs; without a winner its attempts end as the request does."""
        left, self._runners = self._runners, {}
        exchange = self._exchange
        for task, attempt in left.items():
            if self.winner is not None:
                attempt.end(
                    exchange.services.stopwatch(),
                    ending_of(task, is_stream=self._request.is_stream),
                )
            task.cancel()
        if self._hedge is not None and exchange.plan is not None and self.winner is not None:
            result = Hedge.WON if self.winner is self._hedge else Hedge.LOST
            exchange.services.metrics.queue.hedged(exchange.plan.route.id, result)
        if self.winner is not None:
            # last comes the attempt that answered, as when one is made after the other
            exchange.attempts.remove(self.winner)
            exchange.attempts.append(self.winner)
        if left:
            await asyncio.gather(*left, return_exceptions=True)


def ending_of(task: "asyncio.Task[bytes]", *, is_stream: bool) -> GatewayError | None:
    """How an attempt that was overtaken has ended: by then it may have failed, or be whole."""
    if not task.done() or task.cancelled():
        return HedgeLost()
    error = task.exception()
    if error is None:
        return HedgeLost() if is_stream else None
    if isinstance(error, GatewayError):
        return error
    log.error("attempt failed", exc_info=error)
    return HedgeLost()

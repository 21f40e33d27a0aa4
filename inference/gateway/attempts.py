"""One try on one worker: what it holds, what it learned, and the charge it leaves behind."""

from asyncio import Timeout, get_running_loop
from collections.abc import Sequence
from functools import lru_cache

import structlog

from inference.contract.events import Charge, Usage
from inference.contract.kinds import ChargeKind
from inference.contract.shapes import shaped
from inference.contract.snapshot import RouteRecord, TargetRecord
from inference.contract.values import frozen
from inference.decisions.breaker import Verdict, aside_s
from inference.decisions.cost import cost_of, is_complete
from inference.errors import (
    AttemptOverdue,
    DeadlineExceeded,
    GatewayError,
    UpstreamCredentialRefused,
    UpstreamError,
    UpstreamModelMissing,
    UpstreamRefused,
    UpstreamSaturated,
    UpstreamUnreachable,
)
from inference.fleet.worker import Address, Lease
from inference.gateway.dispatch import Placement
from inference.gateway.streaming import StreamFilter
from inference.workers.answers import Answer
from inference.workers.pace import Timeouts

log = structlog.get_logger(__name__)

# A worker that says these would say so of the next request too, for a while.
_NOT_NOW = (UpstreamSaturated, UpstreamModelMissing, UpstreamCredentialRefused)

# A worker that says these does its work: it is full, or finds fault with what it was sent.
_WORKING = (*_NOT_NOW, UpstreamRefused)


NO_USAGE = Usage()


@frozen
class Patience:
    """How long a target's workers may take, for requests of a route. `total_s` None is no bound."""

    timeouts: Timeouts
    fair_s: float
    total_s: float | None


@frozen
class Moment:
    """A time on both clocks: `at_ms` since the epoch for the books, `mono_s` of the stopwatch."""

    at_ms: int
    mono_s: float

    def ms_until(self, mono_s: float) -> float:
        # to the microsecond, in a third of the time that `round` takes
        return int((mono_s - self.mono_s) * 1_000_000 + 0.5) / 1000


@shaped
class Attempt:
    """An attempt under way. `end` releases what it holds, once, and settles its charge.

    `usage` is set from an answer that came whole; a stream's is in `stream`. `was_sent` says that
    the worker may have seen the request. `limit` ends it early, at `due_s` of the loop's clock, if
    its target has a time limit. A hedge was sent beside another attempt that hadn't answered. The
    retry budget counted it at `counted_s`.
    `patience` is how long its worker may take; a worker must have had `fair_s` of it for the end
    of its route's time to be held against it.
    """

    # made of what differs from these, which takes a third of the time that setting all does
    answer: Answer | None = None
    stream: StreamFilter | None = None
    usage: Usage | None = None
    first_token_ms: float | None = None
    was_sent = False
    error: GatewayError | None = None
    error_code: str | None = None
    charge: Charge | None = None
    limit: Timeout | None = None
    due_s: float | None = None
    is_hedge = False

    def __init__(
        self, number: int, placement: Placement, started: Moment, *, route: RouteRecord
    ) -> None:
        self.patience = patience = patience_of(route, placement.planned.target)
        choice = placement.choice
        worker = choice.worker
        self.number = number
        self.placement = placement
        self.planned = placement.planned
        self.choice = choice
        self.started = started
        self.counted_s = started.mono_s
        self.worker_id = worker.id
        self.address: Address = worker.address
        self.inflight = worker.inflight
        self.set_aside = placement.set_aside
        self._lease = Lease(
            worker, placement.prefill_tokens, now_s=started.mono_s, teaches=placement.teaches
        )
        self.is_trial = self._lease.is_trial
        if patience.total_s is not None:
            self.due_s = get_running_loop().time() + patience.total_s

    @property
    def secret(self) -> bytes:
        """The credential the worker is sent, so that nothing it says can repeat it."""
        return self.address.authorization.removeprefix(b"Bearer ")

    def note_first_token(self, now_s: float) -> None:
        """Take the time of the first content and let go of the prompt, which is read by then."""
        self.first_token_ms = self.started.ms_until(now_s)
        self._lease.note_content(now_s)

    def end(self, now_s: float, error: GatewayError | None = None) -> None:
        """Release worker and connection and settle the charge; only the first call counts.

        Without an error the answer was whole.
        """
        if self.charge is not None:
            return
        self.error = error
        verdict, aside_s = Verdict.GOOD, 0.0
        if error is not None:
            self.error_code = error.code.value
            has_had_time = now_s - self.started.mono_s >= self.patience.fair_s
            verdict = verdict_of(error, has_begun=self._has_begun(), has_had_time=has_had_time)
            aside_s = aside_after(error)
        try:
            self._lease.release(verdict, now_s=now_s, aside_s=aside_s)
        finally:
            if self.answer is not None:
                self.answer.close(is_read=error is None)
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(None)  # one that is just ending its task can't be lifted any more
        if isinstance(error, UpstreamError) and not error.was_sent:
            self.was_sent = False
        self.charge = self._charge(now_s)

    def _has_begun(self) -> bool:
        """Whether the worker gave anything of an answer: of a stream, more than its head."""
        return self.answer is not None if self.stream is None else self.first_token_ms is not None

    def _charge(self, now_s: float) -> Charge:
        planned = self.planned
        usage = self.usage if self.stream is None else self.stream.usage()
        kind, cost, cost_max = self._cost(usage)
        pool, answer = planned.pool, self.answer
        return Charge(
            self.number,
            planned.target.id,
            pool.id,
            pool.model_id,
            self.worker_id,
            kind,
            usage or NO_USAGE,
            self.started.at_ms,
            self.started.ms_until(now_s),
            self.first_token_ms,
            None if answer is None else answer.status,
            self.error_code,
            planned.price,
            cost,
            cost_max,
        )

    def _cost(self, usage: Usage | None) -> tuple[ChargeKind, int | None, int | None]:
        """How sure the charge is, its cost or lower bound, and its upper bound."""
        price, most = self.planned.price, self.planned.cost_max_nanousd
        if most is not None and not self.was_sent:
            most = 0
        if usage is None:
            is_due = price is not None and self.error is None
            fee = price.request_nanousd if price is not None and is_due else 0
            return ChargeKind.ESTIMATED, None if most is None else fee, most
        cost = cost_of(usage, price)
        if self.error is None and is_complete(usage):
            return ChargeKind.FINAL, cost, cost
        return ChargeKind.CUT, cost, None if cost is None else max(cost, most or 0)


def patience_of(route: RouteRecord, target: TargetRecord) -> Patience:
    """The target's own where it has some, else the route's."""
    return _patience(
        target.connect_timeout_ms or route.connect_timeout_ms,
        target.first_byte_timeout_ms or route.first_byte_timeout_ms,
        target.idle_timeout_ms or route.idle_timeout_ms,
        target.total_timeout_ms,
        route.total_timeout_ms,
    )


@lru_cache(maxsize=1_024)
def _patience(
    connect_ms: int, first_byte_ms: int, idle_ms: int, total_ms: int | None, route_ms: int | None
) -> Patience:
    first_byte_s = first_byte_ms / 1000
    return Patience(
        Timeouts(connect_ms / 1000, first_byte_s, idle_ms / 1000),
        fair_s(route_ms, first_byte_s=first_byte_s),
        None if total_ms is None else total_ms / 1000,
    )


def charges_of(attempts: Sequence[Attempt]) -> tuple[Charge, ...]:
    """What those that have ended cost."""
    charges: tuple[Charge, ...] = ()
    for one in attempts:
        if one.charge is not None:
            charges += (one.charge,)
    return charges


def end_all(attempts: Sequence[Attempt], now_s: float, error: GatewayError | None) -> None:
    """End all that haven't: whatever goes wrong with one, the others are let go of too."""
    for attempt in attempts:
        if attempt.charge is not None:
            continue
        try:
            attempt.end(now_s, error)
        except Exception:
            log.exception("attempt not ended", worker_id=attempt.worker_id, attempt=attempt.number)


def verdict_of(
    error: GatewayError | None, *, has_begun: bool, has_had_time: bool = True
) -> Verdict:
    """What the end of an attempt says of its worker, which has begun to answer or hasn't.

    A request that ran out of time before that is held against it, unless earlier attempts had taken
    most of the time; one that the caller, or this gateway, gave up says nothing.
    """
    if error is None:
        return Verdict.GOOD
    if isinstance(error, _WORKING):
        return Verdict.WORKING
    if isinstance(error, UpstreamUnreachable):
        return Verdict.UNREACHABLE
    if isinstance(error, AttemptOverdue):
        return Verdict.UNKNOWN if has_begun else Verdict.BAD
    if isinstance(error, UpstreamError):
        return Verdict.BAD
    is_overdue = isinstance(error, DeadlineExceeded) and not has_begun
    return Verdict.BAD if is_overdue and has_had_time else Verdict.UNKNOWN


def fair_s(total_timeout_ms: int | None, *, first_byte_s: float) -> float:
    """How long a worker must have had for the end of its route's time to say something of it."""
    if total_timeout_ms is None:
        return first_byte_s
    return min(first_byte_s, total_timeout_ms / 2000)


def aside_after(error: GatewayError | None) -> float:
    """For how many seconds a worker that ended an attempt so is left to itself; mostly 0."""
    return aside_s(error.retry_after_s) if isinstance(error, _NOT_NOW) else 0.0

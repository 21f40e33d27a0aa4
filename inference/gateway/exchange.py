"""One request from arrival to end: what is known of it, and the one place that lets go of it."""

import asyncio
import json
from collections.abc import Sequence

import structlog

from inference.contract.events import End, Origin
from inference.contract.kinds import Accounting, Endpoint, Outcome, Scope
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.dispatch import Tried, is_repeat
from inference.decisions.plan import Plan, Refusal, RefusalCode, plan_request
from inference.decisions.retries import pause_s
from inference.errors import (
    AccountingUnavailable,
    ClientLeft,
    DeadlineExceeded,
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    NoCapacity,
)
from inference.gateway.attempts import Attempt, Moment, fair_s
from inference.gateway.auth import identify
from inference.gateway.dispatch import Prompt
from inference.gateway.downstream import Downstream
from inference.gateway.headers import Headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.records import decision_record, opening_record, origin_record
from inference.gateway.schemas import InferenceRequest, parse_request
from inference.gateway.services import Services
from inference.journal import JournalUnavailable
from inference.workers.registry import OFFERS

log = structlog.get_logger(__name__)

# What engines keep a prompt's cache for: a call that generates nothing leaves none behind.
_GENERATING = frozenset((Endpoint.CHAT, Endpoint.COMPLETIONS))


class Exchange:
    """A request and everything it holds. `close` lets go of all of it, however it ended.

    The snapshot is captured once: a change of configuration concerns the next request.
    """

    def __init__(self, services: Services, downstream: Downstream, *, endpoint: Endpoint) -> None:
        self.services = services
        self.downstream = downstream
        self.endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self.arrived = self.now()
        self.event_id = event_id(self.arrived.at_ms, services.random_bits(RANDOM_BITS))
        self.snapshot = services.snapshots.current
        self.identity: KeyRecord | None = None
        self.request: InferenceRequest | None = None
        self.plan: Plan | None = None
        self.attempts: list[Attempt] = []
        self.first_token_ms: float | None = None
        self.interruption: GatewayError | None = None
        self.is_closed = False
        self.is_out_of_retries = False
        self._prompt: Prompt | None = None
        self._route: RouteRecord | None = None
        self._origin_record: Origin | None = None
        self._task = asyncio.current_task()
        self._deadline: asyncio.TimerHandle | None = None
        services.metrics.arrived()
        downstream.watch(self._client_left)

    def now(self) -> Moment:
        return Moment(int(self.services.clock() * 1000), self.services.stopwatch())

    def identify(self) -> None:
        """Find out who asks, or raise."""
        self.identity = identify(
            self._configuration(),
            self.downstream.headers.authorization,
            peppers=self.services.peppers,
            now=self.services.clock(),
        )

    async def understand(self) -> InferenceRequest:
        """Read the body, or raise."""
        body = await self.downstream.read_body(self.services.body_limit_bytes)
        self.request = parse_request(self.endpoint, body)
        return self.request

    def make_plan(self, request: InferenceRequest) -> Plan:
        """Decide where it goes, or raise; the route's time limit runs from the arrival on."""
        assert self.identity is not None
        decided = plan_request(
            self._configuration(),
            self.identity,
            request=request.facts,
            now=self.services.clock(),
            u=self.services.chance(),
            offers=OFFERS,
        )
        if isinstance(decided, Refusal):
            self._route = decided.route
            raise _refusal_of(decided)
        self.plan, self._route = decided, decided.route
        if decided.route.total_timeout_ms is not None:
            spent_s = self.services.stopwatch() - self.arrived.mono_s
            left_s = decided.route.total_timeout_ms / 1000 - spent_s
            self._deadline = self._loop.call_later(left_s, self.interrupt, DeadlineExceeded())
        return decided

    async def next_attempt(self, plan: Plan, tried: Sequence[Tried]) -> Attempt | None:
        """Take a worker for the next attempt; None if there is none to try, or no retry left.

        A worker that has failed this request is asked again after a pause, if there is time for it.
        """
        dispatcher, metrics, started = self.services.dispatcher, self.services.metrics, self.now()
        rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if is_repeat(rooms, tried):
            if not await self._has_paused():
                return None
            started = self.now()
            rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if not rooms:
            return None
        is_retry = bool(tried)
        if not dispatcher.may_attempt(plan.route, is_retry=is_retry, now_s=started.mono_s):
            self.is_out_of_retries = True
            metrics.refused_retry(plan.route.id)
            return None
        if is_retry:
            metrics.retried(plan.route.id)
        placement = dispatcher.place(
            plan, rooms, prompt=self._routed_prompt(), now_s=started.mono_s
        )
        if placement.choice.room.is_panic:
            metrics.panicked(placement.planned.pool.id)
        first_byte_ms = placement.planned.target.first_byte_timeout_ms
        first_byte_s = (first_byte_ms or plan.route.first_byte_timeout_ms) / 1000
        attempt = Attempt(
            len(self.attempts) + 1,
            placement,
            started,
            fair_s=fair_s(plan.route, first_byte_s=first_byte_s),
        )
        self.attempts.append(attempt)
        return attempt

    async def _has_paused(self) -> bool:
        """Give a worker a moment to recover; False, at once, if the request has no time for it."""
        wait_s = pause_s(self.services.chance())
        if self._deadline is not None and self._deadline.when() - self._loop.time() <= wait_s:
            return False
        await asyncio.sleep(wait_s)
        return True

    def _routed_prompt(self) -> Prompt:
        if self._prompt is None:
            request = self.request
            assert request is not None
            self._prompt = Prompt(
                lambda: request.prompt_bytes,
                bytes_max=request.facts.prompt_tokens_max,
                media_bytes=request.media_bytes,
                is_kept=self.endpoint in _GENERATING,
            )
        return self._prompt

    async def open_books(self, plan: Plan, attempt: Attempt) -> None:
        """Write down what is about to be sent; a strict route doesn't go on without."""
        opening = opening_record(
            self.event_id,
            at_ms=self.arrived.at_ms,
            origin=self._origin(),
            plan=plan,
            attempt=attempt,
            client_request_id=self.downstream.headers.client_request_id,
        )
        try:
            await self.services.books.open(opening)
        except JournalUnavailable as error:
            self.services.metrics.lost_event()
            if plan.route.accounting is Accounting.STRICT:
                refusal = AccountingUnavailable()
                attempt.end(self.services.stopwatch(), refusal)
                self.attempts.remove(attempt)  # it never was one: nothing was sent
                raise refusal from error

    def note_first_token(self, attempt: Attempt) -> None:
        """Take the time of the first content, once."""
        if attempt.first_token_ms is None:
            now_s = self.services.stopwatch()
            attempt.note_first_token(now_s)
            self.first_token_ms = self.arrived.ms_until(now_s)
            self.services.dispatcher.note_content(attempt.placement, now_s=now_s)

    def debug_headers(self) -> Headers:
        """What was decided, for keys that may know."""
        if self.identity is None or Scope.DEBUG not in self.identity.scopes or not self.attempts:
            return ()
        headers: Headers = (
            (b"x-headworks-target", self.attempts[-1].planned.target.id.encode()),
            (b"x-headworks-attempts", b"%d" % len(self.attempts)),
        )
        if self.downstream.headers.wants_decision:
            headers += ((b"x-headworks-decision", json.dumps(self._decision()).encode()),)
        return headers

    def interrupt(self, error: GatewayError) -> None:
        """End it from outside, wherever it waits; the pipeline finds the reason here."""
        if self.is_closed or self.interruption is not None or self._task is None:
            return
        self.interruption = error
        self._task.cancel()

    async def close(
        self, outcome: Outcome, *, http_status: int, error: GatewayError | None = None
    ) -> None:
        """Let go of everything and write the end. Only the first call counts.

        Whatever is held is released before anything is waited for, so a cancellation can come at
        any time.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._let_go(error)
        now_s = self.services.stopwatch()
        if outcome is Outcome.OK and self.attempts and self.first_token_ms is None:
            self.services.dispatcher.note_content(self.attempts[-1].placement, now_s=now_s)
        self.services.metrics.ended(
            None if self._route is None else self._route.id,
            outcome,
            total_s=now_s - self.arrived.mono_s,
            first_token_s=None if self.first_token_ms is None else self.first_token_ms / 1000,
        )
        if outcome is Outcome.ERROR:
            self._log_failure(error)
        if self.identity is not None:
            end = self._end(outcome, http_status, error, now_s)
            self.services.traffic.count(end, mono_s=now_s)
            await self._write_end(end)

    def _let_go(self, error: GatewayError | None) -> None:
        self.downstream.watch(None)
        if self._deadline is not None:
            self._deadline.cancel()
        now_s = self.services.stopwatch()
        for attempt in self.attempts:
            attempt.end(now_s, error)

    async def _write_end(self, end: End) -> None:
        try:
            await self.services.books.close(end)
        except JournalUnavailable:
            self.services.metrics.lost_event()

    def _end(
        self, outcome: Outcome, http_status: int, error: GatewayError | None, now_s: float
    ) -> End:
        return End(
            event_id=self.event_id,
            at_ms=int(self.services.clock() * 1000),
            received_at_ms=self.arrived.at_ms,
            origin=self._origin(),
            outcome=outcome,
            http_status=http_status,
            charges=tuple(one.charge for one in self.attempts if one.charge is not None),
            total_ms=self.arrived.ms_until(now_s),
            error_code=None if error is None else error.code.value,
            first_token_ms=self.first_token_ms,
            output_tokens_max=None if self.plan is None else self.plan.output_tokens_max,
            client_request_id=self.downstream.headers.client_request_id,
            decision=self._decision(),
        )

    def _decision(self) -> dict[str, object] | None:
        if self.plan is None:
            return None
        return decision_record(self.plan, self.attempts, is_out_of_retries=self.is_out_of_retries)

    def _origin(self) -> Origin:
        """Who asked for what; as complete as it gets by the time it is first asked for."""
        if self._origin_record is None:
            assert self.identity is not None
            self._origin_record = origin_record(
                self.identity,
                self._configuration(),
                endpoint=self.endpoint,
                request=self.request,
                route=self._route,
                gateway=self.services.gateway,
            )
        return self._origin_record

    def _configuration(self) -> ConfigSnapshot:
        if self.snapshot is None:
            raise NoCapacity("This gateway has no configuration yet.")
        return self.snapshot

    def _client_left(self) -> None:
        self.interrupt(ClientLeft())

    def _log_failure(self, error: GatewayError | None) -> None:
        log.warning(
            "request failed",
            request_id=self.event_id,
            snapshot_version=None if self.snapshot is None else self.snapshot.version,
            route_id=None if self._route is None else self._route.id,
            code=None if error is None else error.code.value,
            workers=[attempt.worker_id for attempt in self.attempts],
            upstream_status=getattr(error, "upstream_status", None),
        )


def _refusal_of(decided: Refusal) -> GatewayError:
    if decided.code is RefusalCode.NO_CAPACITY:
        return NoCapacity()
    if decided.code is RefusalCode.WRONG_ENDPOINT:
        return InvalidRequest(decided.message, param="model")
    return ModelNotFound(param="model")

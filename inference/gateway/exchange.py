"""One request from arrival to end: what is known of it, and the one place that lets go of it."""

import asyncio
import json
from collections.abc import Sequence

import structlog

from inference.contract.events import End, Origin, Usage
from inference.contract.kinds import (
    Accounting,
    ChargeKind,
    DegradationStep,
    Endpoint,
    Outcome,
    Scope,
)
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.cost import tokens_not_generated
from inference.decisions.dispatch import Tried, is_repeat
from inference.decisions.endpoints import BRIDGES, GENERATING
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.plan import Plan, Refusal, plan_request
from inference.decisions.retries import pause_s
from inference.errors import (
    AccountingUnavailable,
    ClientLeft,
    DeadlineExceeded,
    GatewayError,
    NoCapacity,
)
from inference.gateway.admission import end_and_settle, withdraw
from inference.gateway.attempts import Attempt, Moment, attempt_of
from inference.gateway.auth import identify
from inference.gateway.bridged import Bridged, within_reach
from inference.gateway.dialects import dialect_of
from inference.gateway.dispatch import Placement, Prompt
from inference.gateway.downstream import Downstream
from inference.gateway.facts import NOTHING_KNOWN, facts_for
from inference.gateway.headers import Headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.records import decision_record, opening_record, origin_record
from inference.gateway.refusals import refusal_of
from inference.gateway.schemas import InferenceRequest, parse_request
from inference.gateway.services import Services
from inference.gateway.turns import degraded_headers, place_in_turn, still_on, turn_record
from inference.journal import JournalUnavailable
from inference.limits.limiter import Admission
from inference.queues.room import Silence
from inference.workers.registry import OFFERS

log = structlog.get_logger(__name__)


class Exchange:
    """A request and everything it holds. `close` lets go of all of it, however it ended.

    The snapshot is captured once: of a change of configuration it heeds the kill switches only.
    """

    body_bytes = 0
    queued_ms: float | None = None
    silence: Silence | None = None
    degraded: tuple[DegradationStep, ...] = ()
    bridged: Bridged | None = None

    def __init__(self, services: Services, downstream: Downstream, *, endpoint: Endpoint) -> None:
        self.services = services
        self.downstream = downstream
        self.endpoint = endpoint
        self.dialect = dialect_of(endpoint)
        self._loop = asyncio.get_running_loop()
        self.arrived = self.now()
        self.event_id = event_id(self.arrived.at_ms, services.random_bits(RANDOM_BITS))
        self.trace = services.traces.begin(downstream.headers)
        self.snapshot = services.snapshots.current
        self.identity: KeyRecord | None = None
        self.request: InferenceRequest | None = None
        self.facts: RequestFacts | None = None
        self.plan: Plan | None = None
        self.admission: Admission | None = None
        self.attempts: list[Attempt] = []
        self.first_token_ms: float | None = None
        self.interruption: GatewayError | None = None
        self.is_closed = False
        self.is_out_of_retries = False
        self.tokens_not_generated: int | None = None
        self._prompt: Prompt | None = None
        self._media_bytes = 0
        self._route: RouteRecord | None = None
        self._rule_id: str | None = None
        self._origin_record: Origin | None = None
        self._task = asyncio.current_task()
        self._deadline: asyncio.TimerHandle | None = None
        services.metrics.arrived()
        downstream.watch(lambda: self.interrupt(ClientLeft()))

    def now(self) -> Moment:
        return Moment(int(self.services.clock() * 1000), self.services.stopwatch())

    def identify(self) -> None:
        """Find out who asks, or raise."""
        self.identity = identify(
            self._configuration(),
            self.downstream.headers.authorization,
            peppers=self.services.peppers,
            now=self.services.clock(),
            proofs=self.services.proofs,
        )

    async def understand(self) -> InferenceRequest:
        """Read the body, or raise."""
        body = await self.downstream.read_body(self.services.body_limit_bytes)
        self.body_bytes = len(body)
        self.request = parse_request(self.endpoint, body)
        return self.request

    def make_plan(self, request: InferenceRequest) -> Plan:
        """Decide where it goes, or raise; the route's time limit runs from the arrival on."""
        assert self.identity is not None
        snapshot, now = self._configuration(), self.services.clock()
        self._media_bytes = request.media_bytes
        self.facts = facts_for(
            request,
            self.downstream.headers,
            snapshot=snapshot,
            identity=self.identity,
            media_bytes=self._media_bytes,
        )
        decided = plan_request(
            snapshot,
            self.identity,
            request=self.facts,
            now=now,
            u=self.services.chance(),
            offers=OFFERS,
        )
        if self.endpoint in BRIDGES:
            decided = within_reach(self, request, decided)
        self._route, self._rule_id = decided.route, decided.rule_id
        if isinstance(decided, Refusal):
            raise refusal_of(decided, now=now)
        self.plan = decided
        if decided.route.total_timeout_ms is not None:
            spent_s = self.services.stopwatch() - self.arrived.mono_s
            left_s = decided.route.total_timeout_ms / 1000 - spent_s
            self._deadline = self._loop.call_later(left_s, self.interrupt, DeadlineExceeded())
        return decided

    async def admit(self, plan: Plan | None) -> None:
        """Take what the request's limits want, all or nothing, or raise."""
        assert self.identity is not None
        end_user = None if self.facts is None else self.facts.end_user
        self.admission = self.services.limiter.admission(
            self.event_id, self.identity, end_user=end_user, plan=plan
        )
        if self.admission is not None:
            await self.admission.take()

    async def next_attempt(self, plan: Plan, tried: Sequence[Tried]) -> Attempt | None:
        """Take a worker for the next attempt; None if there is none to try, or no retry left.

        A worker that has failed this request is asked again after a pause, if there is time for it.
        """
        dispatcher, metrics, started = self.services.dispatcher, self.services.metrics, self.now()
        plan = still_on(self, plan)
        rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if is_repeat(rooms, tried):
            if not await self._has_paused():
                return None
            plan, started = still_on(self, plan), self.now()
            rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if not rooms:
            return None
        is_retry = bool(tried)
        if not dispatcher.may_attempt(plan.route, is_retry=is_retry, now_s=started.mono_s):
            self.is_out_of_retries = True
            metrics.refused_retry(plan.route.id)
            return None
        counted_s = started.mono_s
        prompt = self.routed_prompt()
        placement = dispatcher.place(plan, rooms, prompt=prompt, now_s=started.mono_s)
        if placement.choice.worker.is_full:
            in_turn = await place_in_turn(self, plan, tried, prompt, counted_s=counted_s)
            if in_turn is None:
                return None
            placement, started = in_turn, self.now()
        attempt = self.begin_attempt(plan, placement, started)
        attempt.counted_s = counted_s
        return attempt

    def begin_attempt(self, plan: Plan, placement: Placement, started: Moment) -> Attempt:
        """Take the worker that was chosen."""
        if placement.choice.room.is_panic:
            self.services.metrics.panicked(placement.planned.pool.id)
        attempt = attempt_of(len(self.attempts) + 1, placement, started, route=plan.route)
        self.attempts.append(attempt)
        return attempt

    async def _has_paused(self) -> bool:
        """Give a worker a moment to recover; False, at once, if the request has no time for it."""
        wait_s = pause_s(self.services.chance())
        if self._deadline is not None and self._deadline.when() - self._loop.time() <= wait_s:
            return False
        await asyncio.sleep(wait_s)
        return True

    def routed_prompt(self) -> Prompt:
        """Its prompt as routing sees it."""
        if self._prompt is None:
            request = self.request
            assert request is not None
            self._prompt = Prompt(
                lambda: request.prompt_bytes,
                bytes_max=request.facts.prompt_tokens_max,
                media_bytes=self._media_bytes,
                is_kept=self.endpoint in GENERATING,
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
                withdraw(self, attempt, refusal)
                raise refusal from error

    def note_first_token(self, attempt: Attempt) -> None:
        """Take the time of the first content, once."""
        if attempt.first_token_ms is None:
            now_s = self.services.stopwatch()
            attempt.note_first_token(now_s)
            if self.first_token_ms is None:
                self.first_token_ms = self.arrived.ms_until(now_s)
            self.services.dispatcher.note_content(attempt.placement, now_s=now_s)

    def debug_headers(self) -> Headers:
        """What its limits leave, to which fallback it came, and the rest for keys that may know."""
        headers: Headers = () if self.admission is None else self.admission.headers()
        if self.degraded:
            headers += degraded_headers(self)
        if self.identity is None or not self.attempts:
            return headers
        planned = self.attempts[-1].planned
        if planned.fallbacks:
            headers += ((b"x-headworks-fallbacks", b"%d" % planned.fallbacks),)
        if Scope.DEBUG not in self.identity.scopes:
            return headers
        headers += (
            (b"x-headworks-target", planned.target.id.encode()),
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
        is_owed = self._let_go(error)
        now_s = self.services.stopwatch()
        if outcome is Outcome.OK and self.attempts and self.first_token_ms is None:
            self.services.dispatcher.note_content(self.attempts[-1].placement, now_s=now_s)
        self.services.metrics.ended(
            None if self._route is None else self._route.id,
            outcome,
            total_s=now_s - self.arrived.mono_s,
            first_token_s=None if self.first_token_ms is None else self.first_token_ms / 1000,
        )
        self._count_tokens_not_generated(outcome)
        if outcome is Outcome.ERROR:
            self._log_failure(error)
        if self.identity is not None:
            end = self._end(outcome, http_status, error, now_s)
            self.services.traffic.count(end, mono_s=now_s)
            self.services.traces.ended(self.trace, end, self.attempts)
            try:
                await self.services.books.close(end)
            except JournalUnavailable:
                self.services.metrics.lost_event()
        if is_owed:
            await self.services.limiter.leases.told()

    def _let_go(self, error: GatewayError | None) -> bool:
        """Release all that is held; True if a limit counts more than had been taken of it."""
        self.downstream.watch(None)
        if self._deadline is not None:
            self._deadline.cancel()
        return end_and_settle(self, error)

    def _count_tokens_not_generated(self, outcome: Outcome) -> None:
        """Take note of what an engine was spared by a caller that left or an answer cut short."""
        charge = self.attempts[-1].charge if self.attempts else None
        is_cut = outcome is Outcome.ERROR and charge is not None and charge.kind is ChargeKind.CUT
        if self.plan is None or self.request is None or self.endpoint not in GENERATING:
            return
        if is_cut or outcome is Outcome.CANCELLED:
            self.tokens_not_generated = spared = tokens_not_generated(
                Usage() if charge is None else charge.usage,
                output_tokens_requested=self.request.facts.output_tokens_requested,
                output_tokens_max=self.plan.output_tokens_max,
            )
            if spared:
                self.services.metrics.spared(self.plan.route.id, spared)

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
            queued_ms=self.queued_ms,
            first_token_ms=self.first_token_ms,
            output_tokens_max=None if self.plan is None else self.plan.output_tokens_max,
            client_request_id=self.downstream.headers.client_request_id,
            decision=self._decision(),
        )

    def _decision(self) -> dict[str, object] | None:
        if self.plan is None:
            return None
        record = decision_record(self.plan, self.attempts, is_out_of_retries=self.is_out_of_retries)
        if self.queued_ms is not None or self.degraded:
            record |= turn_record(self)
        if self.tokens_not_generated is not None:
            record["tokens_not_generated"] = self.tokens_not_generated
        if self.trace is not None:
            record["trace_id"] = self.trace.trace_id
        if self.admission is not None:
            record["limits"] = self.admission.record()
        return record

    def _origin(self) -> Origin:
        """Who asked for what; as complete as it gets by the time it is first asked for."""
        if self._origin_record is None:
            assert self.identity is not None
            facts = self.facts or NOTHING_KNOWN
            standing = None if self.plan is None else self.plan.standing
            self._origin_record = origin_record(
                self.identity,
                self._configuration(),
                endpoint=self.endpoint,
                request=self.request,
                route=self._route,
                gateway=self.services.gateway,
                end_user=facts.end_user,
                standing=standing or standing_of(facts, self.identity, self._route),
                rule_id=self._rule_id,
            )
        return self._origin_record

    def _configuration(self) -> ConfigSnapshot:
        if self.snapshot is None:
            raise NoCapacity("This gateway has no configuration yet.")
        return self.snapshot

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

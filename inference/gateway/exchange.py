"""One request from arrival to end: what is known of it, and the one place that lets go of it."""

import asyncio
from collections.abc import Sequence

from inference.contract.events import End, Origin
from inference.contract.kinds import Accounting, DegradationStep, Endpoint, Outcome
from inference.contract.shapes import shaped
from inference.contract.snapshot import KeyRecord, RouteRecord
from inference.decisions.dispatch import Tried, is_repeat
from inference.decisions.endpoints import BRIDGES, GENERATING
from inference.decisions.experiments import Assignment
from inference.decisions.facts import RequestFacts, standing_of
from inference.decisions.groundwork import Way
from inference.decisions.plan import Plan, Refusal, plan_request
from inference.decisions.record import decision_record
from inference.decisions.retries import pause_s
from inference.errors import (
    AccountingUnavailable,
    ClientLeft,
    DeadlineExceeded,
    GatewayError,
    NoCapacity,
)
from inference.gateway.admission import count_spared, end_and_settle, log_failure, withdraw
from inference.gateway.attempts import Attempt, Moment, charges_of, end_all
from inference.gateway.auth import identify
from inference.gateway.bridged import Bridged, within_reach
from inference.gateway.cached import Caching
from inference.gateway.dialects import DIALECTS, Dialect
from inference.gateway.dispatch import Placement, Prompt
from inference.gateway.downstream import Downstream
from inference.gateway.facts import NOTHING_KNOWN, facts_for
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.prompts import check_variables, filled, with_room
from inference.gateway.records import opening_record, origin_record
from inference.gateway.refusals import refusal_of
from inference.gateway.schemas import InferenceRequest, parse_request
from inference.gateway.services import Services
from inference.gateway.turns import place_in_turn, still_on, turn_record
from inference.gateway.variants import opened, settled
from inference.journal import JournalUnavailable
from inference.limits.admissions import Admission
from inference.queues.room import Silence
from inference.workers.registry import OFFERS


@shaped
class Exchange:
    """A request and everything it holds. `close` lets go of all of it, however it ended.

    The snapshot is captured once: of a change of configuration it heeds the kill switches only.
    """

    # made of what differs from these, which takes a third of the time that setting all does
    body_bytes = 0
    queued_ms: float | None = None
    silence: Silence | None = None
    identity: KeyRecord | None = None
    request: InferenceRequest | None = None
    facts: RequestFacts | None = None
    plan: Plan | None = None
    admission: Admission | None = None
    first_token_ms: float | None = None
    interruption: GatewayError | None = None
    is_closed = False
    due_s: float | None = None
    _prompt: Prompt | None = None
    _way: Way | None = None
    _route: RouteRecord | None = None
    _rule_id: str | None = None
    _origin_record: Origin | None = None
    degraded: tuple[DegradationStep, ...] = ()
    bridged: Bridged | None = None
    caching: Caching | None = None
    is_out_of_retries = False
    tokens_not_generated: int | None = None
    assignments: tuple[Assignment, ...] = ()
    is_renewal = False

    def __init__(self, services: Services, downstream: Downstream, *, endpoint: Endpoint) -> None:
        self.services = services
        self.downstream = downstream
        self.endpoint = endpoint
        self.dialect = DIALECTS.get(endpoint, Dialect.OPENAI)
        self.arrived = arrived = Moment(int(services.clock() * 1000), services.stopwatch())
        self.event_id = event_id(arrived.at_ms, services.random_bits(RANDOM_BITS))
        self.trace = services.traces.begin(downstream.headers)
        self.snapshot = services.snapshots.current
        self.attempts: list[Attempt] = []
        services.metrics.arrived()
        downstream.watch(self._leave)

    def now(self) -> Moment:
        return Moment(int(self.services.clock() * 1000), self.services.stopwatch())

    def identify(self) -> None:
        """Find out who asks, or raise."""
        services, snapshot = self.services, self.snapshot
        if snapshot is None:
            raise NoCapacity("This gateway has no configuration yet.")
        sent, now = self.downstream.headers.authorization, services.clock()
        self.identity = identify(
            snapshot, sent, peppers=services.peppers, now=now, proofs=services.proofs
        )

    async def understand(self) -> InferenceRequest:
        """Read the body, or raise."""
        body = await self.downstream.read_body(self.services.body_limit_bytes)
        self.body_bytes = len(body)
        self.request = request = parse_request(self.endpoint, body)
        if "prompt" in request.members and self.endpoint is Endpoint.CHAT:
            self.request = request = filled(self, request)
        return request

    def make_plan(self, request: InferenceRequest) -> Plan:
        """Decide where it goes, or raise; the route's time limit runs from the arrival on."""
        identity, services, snapshot = self.identity, self.services, self.snapshot
        assert identity is not None
        assert snapshot is not None
        now = services.clock()
        ground = services.grounds.of(snapshot, now)
        self._way = way = ground.way(identity, request.model)
        headers, facts = self.downstream.headers, request.facts
        looked_at = None if way is None else way.looked_at
        if headers.wishes or looked_at:
            facts = facts_for(request, headers, identity=identity, looked_at=looked_at or ())
        if way is not None and way.experiments:
            facts = with_room(snapshot, way, request, facts)
        self.facts = facts
        decided = plan_request(
            snapshot,
            identity,
            request=facts,
            now=now,
            u=services.chance(),
            offers=OFFERS,
            ground=ground,
            way=way,
        )
        if self.endpoint in BRIDGES:
            decided = within_reach(self, request, decided)
        self._route, self._rule_id = decided.route, decided.rule_id
        if decided.assignments:
            self.assignments = decided.assignments
            check_variables(self, decided, request)
        if isinstance(decided, Refusal):
            raise refusal_of(decided, now=now)
        self.plan = decided
        if way is not None and self._rule_id is None and facts.end_user is None:
            if decided.standing is way.standing:  # then it is as `origin_record` would find it
                self._origin_record = way.origins.get((self.endpoint, request.is_stream))
        limit_ms = decided.route.total_timeout_ms
        if limit_ms is not None:
            due_s = self.arrived.mono_s + limit_ms / 1000
            services.deadlines.add(self, due_s, limit_ms, services.stopwatch)
        return decided

    def limit(self, plan: Plan | None) -> Admission | None:
        """Find the limits that the request has to keep; None is none."""
        assert self.identity is not None
        came_s, facts = self.arrived.at_ms / 1000, self.facts or NOTHING_KNOWN
        self.admission = self.services.limiter.admission(
            self.event_id, self.identity, end_user=facts.end_user, plan=plan, at_s=came_s
        )
        return self.admission

    async def admit(self) -> None:
        """Take what the request's limits want, all or nothing, or raise."""
        if self.admission is not None:
            await self.admission.take()

    async def next_attempt(self, plan: Plan, tried: Sequence[Tried]) -> Attempt | None:
        """Take a worker for the next attempt; None if there is none to try, or no retry left.

        A worker that has failed this request is asked again after a pause, if there is time for it.
        """
        services, dispatcher = self.services, self.services.dispatcher
        started = Moment(int(services.clock() * 1000), services.stopwatch())
        if services.snapshots.current is not self.snapshot:
            plan = still_on(self, plan)
        rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if tried and is_repeat(rooms, tried):
            if not await self._has_paused():
                return None
            plan, started = still_on(self, plan), self.now()
            rooms = dispatcher.rooms(plan, tried, now_s=started.mono_s)
        if not rooms:
            return None
        if not tried:
            dispatcher.note_request(plan.route.id, started.mono_s)
        elif not self._may_retry(plan, started.mono_s):
            return None
        counted_s = started.mono_s
        prompt = self._prompt or self.routed_prompt()
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
        attempt = Attempt(len(self.attempts) + 1, placement, started, route=plan.route)
        self.attempts.append(attempt)
        return attempt

    def _may_retry(self, plan: Plan, now_s: float) -> bool:
        """Count a further attempt; False if it is one too many."""
        is_allowed = self.services.dispatcher.may_retry(plan.route, now_s)
        metrics = self.services.metrics
        if not is_allowed:
            metrics.refused_retry(plan.route.id)
        self.is_out_of_retries = not is_allowed
        return is_allowed

    async def _has_paused(self) -> bool:
        """Give a worker a moment to recover; False, at once, if the request has no time for it."""
        wait_s = pause_s(self.services.chance())
        if self.due_s is not None:
            if self.due_s - self.services.stopwatch() <= wait_s:
                return False
        await asyncio.sleep(wait_s)
        return True

    def routed_prompt(self) -> Prompt:
        """Its prompt as routing sees it."""
        if self._prompt is None:
            request = self.request
            assert request is not None
            self._prompt = Prompt(
                lambda: request.prompt_view,
                tokens=request.facts.prompt_tokens,
                teaches=not request.media_bytes,
                is_kept=self.endpoint in GENERATING,
            )
        return self._prompt

    async def open_books(self, plan: Plan, attempt: Attempt) -> None:
        """Write down what is about to be sent; a strict route doesn't go on without."""
        opening = opening_record(
            self.event_id,
            at_ms=self.arrived.at_ms,
            origin=self._origin_record or self._origin(),
            plan=plan,
            attempt=attempt,
            client_request_id=self.downstream.headers.client_request_id,
            exposures=opened(self) if self.assignments else (),
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

    def overrun(self) -> None:
        """End it because its time is over."""
        self.interrupt(DeadlineExceeded())

    def _leave(self) -> None:
        self.interrupt(ClientLeft())

    def interrupt(self, error: GatewayError) -> None:
        """End it from outside, wherever it waits; the pipeline finds the reason here."""
        task = self.downstream.task
        if self.is_closed or self.interruption is not None or task is None:
            return
        self.interruption = error
        task.cancel()

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
        services = self.services
        now_s = services.stopwatch()
        is_owed = self._let_go(error, now_s)
        is_ok = outcome is Outcome.OK
        if is_ok and self.first_token_ms is None and self.attempts:
            placement = self.attempts[-1].placement
            if placement.blocks:
                services.dispatcher.note_content(placement, now_s=now_s)
        first_ms = self.first_token_ms
        services.metrics.ended(
            None if self._route is None else self._route.id,
            outcome,
            total_s=now_s - self.arrived.mono_s,
            first_token_s=None if first_ms is None else first_ms / 1000,
        )
        if not is_ok:
            count_spared(self, outcome)
        if outcome is Outcome.ERROR:
            log_failure(self, error)
        if self.identity is not None:
            end = self._end(outcome, http_status, error, now_s)
            services.traffic.count(end, mono_s=now_s)
            services.traces.ended(self.trace, end, self.attempts)
            if end.cache is not None:
                services.metrics.caches.used(end.cache)
            try:
                await services.books.close(end)
            except JournalUnavailable:
                services.metrics.lost_event()
        if is_owed:
            await services.limiter.leases.told()

    def _let_go(self, error: GatewayError | None, now_s: float) -> bool:
        """Release all that is held; True if a limit counts more than had been taken of it."""
        self.downstream.watch(None)
        if self.due_s is not None and self.plan is not None:
            limit_ms = self.plan.route.total_timeout_ms
            self.services.deadlines.remove(self, limit_ms or 0)
        if self.admission is not None:
            return end_and_settle(self, self.admission, error, now_s)
        end_all(self.attempts, now_s, error)
        return False

    def _end(
        self, outcome: Outcome, http_status: int, error: GatewayError | None, now_s: float
    ) -> End:
        return End(
            self.event_id,
            int(self.services.clock() * 1000),
            self.arrived.at_ms,
            self._origin_record or self._origin(),
            outcome,
            http_status,
            charges_of(self.attempts),
            self.arrived.ms_until(now_s),
            None if error is None else error.code.value,
            self.queued_ms,
            self.first_token_ms,
            None if self.plan is None else self.plan.output_tokens_max,
            self.downstream.headers.client_request_id,
            self.decision(),
            exposures=settled(self, outcome) if self.assignments else (),
            cache=None if self.caching is None else self.caching.use(self),
        )

    def decision(self) -> dict[str, object] | None:
        """The record of what was decided; None before there is a plan."""
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
            record |= self.admission.records()
        if self.caching is not None:
            record["cache"] = self.caching.record()
        return record

    def _origin(self) -> Origin:
        """Who asked for what; as complete as it gets by the time it is first asked for."""
        assert self.identity is not None
        assert self.snapshot is not None
        facts = self.facts or NOTHING_KNOWN
        standing = None if self.plan is None else self.plan.standing
        self._origin_record = origin = origin_record(
            self.identity,
            self.snapshot,
            endpoint=self.endpoint,
            request=self.request,
            way=self._way,
            route=self._route,
            gateway=self.services.gateway,
            end_user=facts.end_user,
            standing=standing or standing_of(facts, self.identity, self._route),
            rule_id=self._rule_id,
        )
        return origin

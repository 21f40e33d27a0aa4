"""Recorded requests through the real decisions, on a model of the fleet in place of the fleet.

Everything a live request is decided by is asked here too; only time passes by the model. Left out
are failures, breakers and retries, limits, degradation, further gateway processes, fairness between
tenants (of a class whoever came first is next), and what of a prompt a worker has cached: that is
taken as recorded in the pool where it was, and as nothing elsewhere.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from xxhash import xxh3_64_intdigest

from inference.contract.events import Usage
from inference.contract.snapshot import ConfigSnapshot, KeyRecord
from inference.decisions.breaker import Capacity
from inference.decisions.cost import cost_of
from inference.decisions.endpoints import EVERYTHING, Offers
from inference.decisions.facts import RequestFacts
from inference.decisions.fleetmodel import FleetModel, Job, SimulatedWorker
from inference.decisions.groundwork import Groundwork
from inference.decisions.placing import place_first
from inference.decisions.plan import Plan, Refusal, plan_request
from inference.decisions.queueing import URGENCY, is_promoted
from inference.decisions.routing.base import Choice

QUEUE_FULL = "queue_full"
QUEUE_TIMEOUT = "queue_timeout"
NO_WORKER = "no_capacity"

_NOBODY: Capacity[SimulatedWorker] = Capacity(())


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as the ledger has it, in epoch seconds; complete enough to be replayed.

    `pool_id` served it. `is_timed`: its first token was recorded. `plan_u` is the chance its plan
    was drawn with, None if nobody knows.
    """

    event_id: str
    arrived_s: float
    key_id: str
    facts: RequestFacts
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    pool_id: str | None = None
    is_timed: bool = True
    plan_u: float | None = None


@dataclass(slots=True)
class Replayed:
    """What would have become of one; times are from its arrival, in seconds.

    `refused` is why it got no answer, None if it did. A cost of None has no price.
    """

    route_id: str | None = None
    target_id: str | None = None
    pool_id: str | None = None
    model_id: str | None = None
    refused: str | None = None
    queued_s: float = 0.0
    first_token_s: float | None = None
    total_s: float | None = None
    cost_nanousd: int | None = 0


@dataclass(slots=True)
class _Waiting:
    """One that waits for a worker."""

    place: int
    request: Recorded
    plan: Plan
    until_s: float
    is_over: bool = False


@dataclass(slots=True)
class _Line:
    """Who waits for one pool: by class, and those that are old now and then before all others."""

    by_class: list[tuple[int, int, _Waiting]] = field(default_factory=list)
    by_age: deque[_Waiting] = field(default_factory=deque)
    served: int = 0

    def take(self, now_s: float) -> _Waiting | None:
        """The next one's turn; None if nobody waits any more."""
        while self.by_age and self.by_age[0].is_over:
            self.by_age.popleft()
        while self.by_class and self.by_class[0][2].is_over:
            heapq.heappop(self.by_class)
        if not self.by_class:
            return None
        oldest = self.by_age[0]
        waited_s = now_s - oldest.request.arrived_s
        is_old = is_promoted(waited_s=waited_s, served=self.served)
        self.served += 1
        return oldest if is_old else self.by_class[0][2]


class Replay:
    """Replays requests in the order of their arrival under one configuration.

    `workers` are all that can be sent to, by pool. Feed requests as they come, then `finish`;
    `outcomes` are in their order. A chance that isn't recorded is the request's own, so any two
    replays have the same.
    """

    def __init__(
        self,
        snapshot: ConfigSnapshot,
        workers: Mapping[str, Sequence[SimulatedWorker]],
        *,
        offers: Offers = EVERYTHING,
    ) -> None:
        self.outcomes: list[Replayed] = []
        self._snapshot = snapshot
        self._offers = offers
        self._ground: Groundwork | None = None
        self._keys: dict[str, KeyRecord] = {
            one.id: one for bucket in snapshot.keys.values() for one in bucket.values()
        }
        self._capacities = {pool: Capacity(tuple(found)) for pool, found in workers.items()}
        self._fleet = FleetModel()
        self._queues: dict[str, _Line] = {}
        self._deadlines: list[tuple[float, int, _Waiting]] = []
        self._queued: dict[str, int] = {}
        self._order = count()
        self._jobs: dict[int, tuple[Recorded, Replayed]] = {}

    def knows(self, key_id: str) -> bool:
        """Whether the configuration still has this key."""
        return key_id in self._keys

    def feed(self, requests: Iterable[Recorded]) -> None:
        """Let these arrive, the earliest first, after all before."""
        for request in requests:
            self._advance(request.arrived_s)
            self._arrive(request)

    def finish(self) -> None:
        """Let all that is under way end."""
        self._advance(None)

    def _advance(self, until_s: float | None) -> None:
        while True:
            event_s = self._fleet.next_at_s()
            deadline_s = self._deadlines[0][0] if self._deadlines else None
            at_s = min((one for one in (event_s, deadline_s) if one is not None), default=None)
            if at_s is None or (until_s is not None and at_s > until_s):
                return
            if event_s is not None and at_s == event_s:
                ended = self._fleet.step()
                if ended is not None:
                    self._ended(*ended, now_s=at_s)
            else:
                self._give_up(heapq.heappop(self._deadlines)[2])

    def _arrive(self, request: Recorded) -> None:
        place = len(self.outcomes)
        outcome = Replayed()
        self.outcomes.append(outcome)
        plan = plan_request(
            self._snapshot,
            self._keys[request.key_id],
            request=request.facts,
            now=request.arrived_s,
            u=chance_of(request.event_id, "plan") if request.plan_u is None else request.plan_u,
            offers=self._offers,
            ground=self._ground_at(request.arrived_s),
        )
        if isinstance(plan, Refusal):
            outcome.route_id = None if plan.route is None else plan.route.id
            outcome.refused = plan.code.value
            return
        outcome.route_id = plan.route.id
        waiting = _Waiting(place, request, plan, request.arrived_s)
        if not self._place(waiting, request.arrived_s):
            self._queue(waiting)

    def _ground_at(self, now_s: float) -> Groundwork:
        """The groundwork of that time; made anew where a price comes into force."""
        ground = self._ground
        if ground is None or not ground.since <= now_s < ground.until:
            ground = self._ground = Groundwork(self._snapshot, self._offers, now_s)
        return ground

    def _capacities_of(self, plan: Plan) -> list[Capacity[SimulatedWorker]]:
        return [self._capacities.get(one.pool.id, _NOBODY) for one in plan.targets]

    def _queue(self, waiting: _Waiting) -> None:
        route, outcome = waiting.plan.route, self.outcomes[waiting.place]
        pools = [one.pool.id for one in waiting.plan.targets if one.pool.id in self._capacities]
        if not pools:
            outcome.refused = NO_WORKER
            return
        queued = self._queued.get(route.id, 0)
        if route.max_queue_wait_ms == 0 or queued >= route.max_queued:
            outcome.refused = QUEUE_FULL
            return
        self._queued[route.id] = queued + 1
        waiting.until_s = waiting.request.arrived_s + route.max_queue_wait_ms / 1000
        order = next(self._order)
        heapq.heappush(self._deadlines, (waiting.until_s, order, waiting))
        urgency = URGENCY[waiting.plan.standing.priority]
        for pool_id in pools:
            queue = self._queues.setdefault(pool_id, _Line())
            heapq.heappush(queue.by_class, (urgency, order, waiting))
            queue.by_age.append(waiting)

    def _give_up(self, waiting: _Waiting) -> None:
        if waiting.is_over:
            return
        self._leave(waiting)
        outcome = self.outcomes[waiting.place]
        outcome.refused = QUEUE_TIMEOUT
        outcome.queued_s = waiting.until_s - waiting.request.arrived_s

    def _leave(self, waiting: _Waiting) -> None:
        waiting.is_over = True
        self._queued[waiting.plan.route.id] -= 1

    def _ended(self, worker: SimulatedWorker, job: Job, *, now_s: float) -> None:
        request, outcome = self._jobs.pop(job.tag)
        outcome.first_token_s = job.first_token_s - request.arrived_s
        outcome.total_s = job.ended_s - request.arrived_s
        line = self._queues.get(worker.pool_id)
        while line is not None and not worker.is_full:
            waiting = line.take(now_s)
            if waiting is None:
                return
            self._leave(waiting)
            is_placed = self._place(waiting, now_s)
            assert is_placed, "a worker of its pools has just become free"

    def _place(self, waiting: _Waiting, now_s: float) -> bool:
        """Send it where it goes now; False if there is nobody, or nobody with room."""
        request, plan = waiting.request, waiting.plan
        placing = place_first(
            plan,
            self._capacities_of(plan),
            hits={},
            now_s=now_s,
            u=chance_of(request.event_id, "worker"),
        )
        if placing.choice is not None:
            self._send(request, plan, placing.choice, self.outcomes[waiting.place], now_s)
        return placing.choice is not None

    def _send(
        self,
        request: Recorded,
        plan: Plan,
        choice: Choice[SimulatedWorker],
        outcome: Replayed,
        now_s: float,
    ) -> None:
        planned = plan.targets[choice.room.position]
        cached = request.cached_tokens if planned.pool.id == request.pool_id else 0
        outcome.target_id = planned.target.id
        outcome.pool_id = planned.pool.id
        outcome.model_id = planned.pool.model_id
        outcome.queued_s = now_s - request.arrived_s
        usage = Usage(request.prompt_tokens, request.output_tokens, cached)
        outcome.cost_nanousd = cost_of(usage, planned.price)
        job = Job(
            max(request.prompt_tokens - cached, 0),
            request.output_tokens,
            chance_of(request.event_id, "work"),
            tag=next(self._order),
            started_s=now_s,
        )
        self._jobs[job.tag] = (request, outcome)
        self._fleet.send(choice.worker, job, now_s)


def chance_of(event_id: str, use: str) -> float:
    """A number in [0, 1) that a request has for one use, whatever else changes."""
    return (xxh3_64_intdigest(f"{use} {event_id}".encode()) >> 11) / 2**53

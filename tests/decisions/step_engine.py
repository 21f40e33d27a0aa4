"""Workers that take steps as an engine does, to hold the fleet model's predictions against.

A step reads at most so many tokens of prompts, first come first served, and gives every request
that is answered one token. How long it takes depends on both, and on chance.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.breaker import Capacity
from inference.decisions.dispatch import pick_worker
from inference.decisions.fleet_learning import AttemptFact
from inference.decisions.plan import Plan, plan_request
from inference.decisions.queueing import rooms_with_space
from inference.decisions.replay import Recorded
from inference.decisions.routing.base import Wish

STEP_TOKENS = 2_048


@dataclass
class Speed:
    """How long a step takes: at least, for a token of prompts, and for a request answered."""

    step_s: float = 0.012
    token_s: float = 0.00012
    request_s: float = 0.0004


@dataclass
class _Turn:
    request: Recorded
    target_id: str
    sent_s: float
    unread: int
    left: int
    first_token_s: float | None = None


@dataclass
class StepWorker:
    """One worker, and what a gateway knows of it."""

    id: str
    pool_id: str
    speed: Speed
    concurrency: int
    inflight: int = 0
    prefill_tokens: int = 0
    peers_inflight: int = 0
    peers_prefill_tokens: int = 0
    prefill_rate: float = 8_000.0
    kv_used: float | None = None
    first_token_s: float | None = None
    first_token_at_s: float = 0.0
    is_stepping: bool = False
    waiting: deque[_Turn] = field(default_factory=deque)
    running: list[_Turn] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.inflight >= self.concurrency


@dataclass
class Happened:
    """What became of one request; times in seconds from its arrival."""

    request: Recorded
    pool_id: str
    first_token_s: float
    fact: AttemptFact


def run_engines(
    snapshot: ConfigSnapshot,
    workers: Mapping[str, Sequence[StepWorker]],
    requests: Sequence[Recorded],
    *,
    seed: int,
) -> list[Happened]:
    """Serve these requests by the real decisions on these workers; all have room."""
    chance = Random(seed)
    keys = {one.id: one for bucket in snapshot.keys.values() for one in bucket.values()}
    happened: list[Happened] = []
    steps: list[tuple[float, int, StepWorker]] = []
    arrivals = deque(requests)
    while arrivals or steps:
        if arrivals and (not steps or arrivals[0].arrived_s <= steps[0][0]):
            request = arrivals.popleft()
            now_s = request.arrived_s
            plan = plan_request(
                snapshot, keys[request.key_id], request=request.facts, now=now_s, u=chance.random()
            )
            assert isinstance(plan, Plan)
            capacities = [Capacity(workers[one.pool.id]) for one in plan.targets]
            rooms = rooms_with_space(plan, capacities, tried=())
            choice = pick_worker(plan, rooms, wish=Wish(now_s=now_s), u=chance.random())
            assert choice is not None
            worker = choice.worker
            turn = _Turn(
                request,
                choice.room.target.id,
                now_s,
                request.prompt_tokens,
                request.output_tokens,
            )
            worker.inflight += 1
            worker.prefill_tokens += request.prompt_tokens
            worker.waiting.append(turn)
        else:
            now_s, _, worker = heapq.heappop(steps)
            worker.is_stepping = False
            happened += _finish_step(worker, now_s)
        if not worker.is_stepping and (worker.waiting or worker.running):
            worker.is_stepping = True
            length_s = _begin_step(worker) * chance.uniform(0.8, 1.2)
            heapq.heappush(steps, (now_s + length_s, chance.getrandbits(40), worker))
    return happened


def _begin_step(worker: StepWorker) -> float:
    """Take in who has a place, read prompts, and say how long the step takes."""
    while worker.waiting and len(worker.running) < worker.concurrency:
        worker.running.append(worker.waiting.popleft())
    answered = sum(not turn.unread for turn in worker.running)
    budget = STEP_TOKENS - answered
    read = 0
    for turn in worker.running:
        part = min(turn.unread, budget - read)
        turn.unread -= part
        read += part
    speed = worker.speed
    return speed.step_s + read * speed.token_s + answered * speed.request_s


def _finish_step(worker: StepWorker, now_s: float) -> list[Happened]:
    done = []
    for turn in worker.running:
        if turn.unread:
            continue
        if turn.first_token_s is None:
            turn.first_token_s = now_s
            worker.prefill_tokens -= turn.request.prompt_tokens
        turn.left -= 1
        if turn.left <= 0:
            done.append(turn)
    for turn in done:
        worker.running.remove(turn)
        worker.inflight -= 1
    return [_told(worker, turn, now_s) for turn in done]


def _told(worker: StepWorker, turn: _Turn, now_s: float) -> Happened:
    request, first_s = turn.request, turn.first_token_s
    assert first_s is not None
    fact = AttemptFact(
        worker.id,
        worker.pool_id,
        turn.sent_s,
        now_s,
        first_s,
        request.prompt_tokens,
        request.output_tokens,
    )
    return Happened(request, worker.pool_id, first_s - request.arrived_s, fact)

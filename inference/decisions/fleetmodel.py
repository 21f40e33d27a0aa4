"""A model of workers: how long one takes to begin and to go on, by what else it has to do.

An engine works in steps. In each it reads some of the prompts that came first and gives every
request that is answered one token; so a step takes longer the more are answered, and answers nearly
stand still while prompts are read. Servers that hide many engines read each prompt at once. A
worker runs so many requests at once; further ones wait there.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

from inference.decisions.roster import USUAL_PREFILL_RATE

_LEAST_STEP_S = 1e-6


@dataclass(frozen=True, slots=True)
class WorkerModel:
    """What is known of one worker, in seconds.

    A prompt's token takes `prompt_token_s` to read, one prompt after another if `is_serial`. Its
    first token follows `first_token_s` later, and `running_s` for each request that was under way.
    A step with `b` requests takes `step_s + b * step_batch_s`; while prompts are read, answers have
    `1 - reading_share` of the time. Single first tokens take a factor of `spread` of what is
    expected. `samples` is from how many attempts that was learned; 0 is assumed.
    """

    first_token_s: float = 0.02
    prompt_token_s: float = 1 / USUAL_PREFILL_RATE
    running_s: float = 0.0
    is_serial: bool = True
    step_s: float = 0.02
    step_batch_s: float = 0.0005
    reading_share: float = 0.9
    spread: tuple[float, ...] = (1.0,)
    samples: int = 0

    @property
    def prefill_rate(self) -> float:
        """Tokens of prompt a second, as routing weighs them."""
        return USUAL_PREFILL_RATE if self.prompt_token_s <= 0 else 1 / self.prompt_token_s

    def begins_in_s(self, prompt_tokens: int, running: int) -> float:
        """How long the first token is expected to take if nothing is read before it."""
        own_s = self.first_token_s + prompt_tokens * self.prompt_token_s
        return own_s + running * self.running_s

    def factor(self, u: float) -> float:
        """How much longer than expected it takes with this chance."""
        return self.spread[min(int(u * len(self.spread)), len(self.spread) - 1)]

    def pace_s(self, batch: float) -> float:
        """How long one step of so many requests takes while nothing is read."""
        return max(self.step_s + batch * self.step_batch_s, _LEAST_STEP_S)

    def steps_in(self, passed_s: float, read_s: float, batch: int) -> float:
        """How many steps are taken in a time of which prompts are read for `read_s`."""
        return (passed_s - read_s * self.reading_share) / self.pace_s(batch)

    def takes_s(self, steps: float, read_s: float, batch: int) -> float:
        """How long so many steps take if prompts are read for the first `read_s` from now on."""
        needed_s = steps * self.pace_s(batch)
        while_reading_s = read_s * (1 - self.reading_share)
        if needed_s >= while_reading_s:
            return read_s + needed_s - while_reading_s
        return needed_s / (1 - self.reading_share)


@dataclass(slots=True)
class Job:
    """One request at a worker: what it is, and when what became of it."""

    prompt_tokens: int
    output_tokens: int
    u: float
    tag: int
    started_s: float = 0.0
    first_token_s: float = 0.0
    ended_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class SimulatedWorker:
    """One worker of the model: a `Candidate`, as a gateway sees it.

    `slots` is how many requests gateways send it at once, None is no bound; further ones wait with
    them. `concurrency` is how many it runs; further ones wait with it.
    """

    id: str
    pool_id: str
    model: WorkerModel
    concurrency: int
    slots: int | None = None
    inflight: int = 0
    prefill_tokens: int = 0
    peers_inflight: int = 0
    peers_prefill_tokens: int = 0
    kv_used: float | None = None
    first_token_s: float | None = None
    first_token_at_s: float = 0.0
    _waiting: deque[Job] = field(default_factory=deque)
    _running: int = 0
    _read_until_s: float = 0.0
    _steps: float = 0.0
    _stepped_at_s: float = 0.0
    _answering: list[tuple[float, int, Job]] = field(default_factory=list)
    _epoch: int = 0

    @property
    def prefill_rate(self) -> float:
        return self.model.prefill_rate

    @property
    def is_full(self) -> bool:
        """Whether gateways send it no more before something has ended."""
        return self.slots is not None and self.inflight >= self.slots


@dataclass(order=True, slots=True)
class _Event:
    at_s: float
    order: int
    worker: SimulatedWorker = field(compare=False)
    job: Job | None = field(compare=False)
    epoch: int = field(compare=False, default=0)


class FleetModel:
    """Workers and the time: jobs are sent, and `advance` tells which have ended by then.

    Times are seconds of one clock that doesn't go back.
    """

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._order = count()

    def send(self, worker: SimulatedWorker, job: Job, now_s: float) -> None:
        """Give a worker one more request."""
        worker.inflight += 1
        worker.prefill_tokens += job.prompt_tokens
        if worker._running < worker.concurrency:
            self._start(worker, job, now_s)
        else:
            worker._waiting.append(job)

    def next_at_s(self) -> float | None:
        """When something happens next, None if nothing is under way."""
        return self._events[0].at_s if self._events else None

    def step(self) -> tuple[SimulatedWorker, Job] | None:
        """Let the next thing happen; the job that has ended by it, if one has."""
        event = heapq.heappop(self._events)
        worker, now_s = event.worker, event.at_s
        if event.job is not None:
            return self._begin_answer(worker, event.job, now_s)
        if event.epoch != worker._epoch:
            return None
        self._catch_up(worker, now_s)
        _, _, job = heapq.heappop(worker._answering)
        self._reschedule(worker, now_s)
        return self._end(worker, job, now_s)

    def _start(self, worker: SimulatedWorker, job: Job, now_s: float) -> None:
        model = worker.model
        ahead_s = max(worker._read_until_s - now_s, 0.0) if model.is_serial else 0.0
        own_s = model.begins_in_s(job.prompt_tokens, worker._running) * model.factor(job.u)
        self._catch_up(worker, now_s)
        worker._running += 1
        if model.is_serial:
            worker._read_until_s = now_s + ahead_s + job.prompt_tokens * model.prompt_token_s
        job.first_token_s = now_s + ahead_s + own_s
        heapq.heappush(self._events, _Event(job.first_token_s, next(self._order), worker, job))
        self._reschedule(worker, now_s)

    def _begin_answer(
        self, worker: SimulatedWorker, job: Job, now_s: float
    ) -> tuple[SimulatedWorker, Job] | None:
        worker.prefill_tokens -= job.prompt_tokens
        worker.first_token_s, worker.first_token_at_s = now_s - job.started_s, now_s
        if job.output_tokens <= 1:
            return self._end(worker, job, now_s)
        self._catch_up(worker, now_s)
        last = worker._steps + job.output_tokens - 1
        heapq.heappush(worker._answering, (last, next(self._order), job))
        self._reschedule(worker, now_s)
        return None

    def _end(self, worker: SimulatedWorker, job: Job, now_s: float) -> tuple[SimulatedWorker, Job]:
        worker.inflight -= 1
        worker._running -= 1
        job.ended_s = now_s
        if worker._waiting:
            self._start(worker, worker._waiting.popleft(), now_s)
        return worker, job

    def _catch_up(self, worker: SimulatedWorker, now_s: float) -> None:
        """Take the steps since the last change; all who are answered take them together."""
        since_s, worker._stepped_at_s = worker._stepped_at_s, now_s
        if worker._answering:
            read_s = max(min(worker._read_until_s, now_s) - since_s, 0.0)
            batch = len(worker._answering)
            worker._steps += worker.model.steps_in(now_s - since_s, read_s, batch)

    def _reschedule(self, worker: SimulatedWorker, now_s: float) -> None:
        """Have the one that has fewest steps left end when it has taken them."""
        worker._epoch += 1
        if not worker._answering:
            return
        left = max(worker._answering[0][0] - worker._steps, 0.0)
        read_s = max(worker._read_until_s - now_s, 0.0)
        at_s = now_s + worker.model.takes_s(left, read_s, len(worker._answering))
        heapq.heappush(self._events, _Event(at_s, next(self._order), worker, None, worker._epoch))

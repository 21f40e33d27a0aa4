"""What becomes of each worker: what is wanted and what was seen go in, steps come out.

A worker is started, proves itself, serves, is drained and ends; one that dies is started again
after a back-off, one that is to be idle is drained and kept. Nothing here looks at a process or a
clock: the shell carries steps out and says next time what it saw.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from inference.contract.kinds import PoolPower, Task, WorkerState
from inference.contract.snapshot import PoolRecord

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 120.0
"""A minute or two between starts spares a host; longer would only delay a mended one."""

STABLE_S = 300.0
"""Ready for this long, a worker has earned a quick restart again."""

FAILED_PROBES = 3
"""One lost probe is chance; three in a row are an outage."""

UNHEALTHY_S = 60.0
"""A living engine that answers no health check for this long does not come back by itself."""

KILL_GRACE_S = 5.0
"""What a group gets to end by itself once its requests have had their time."""

_SET_ASIDE = (WorkerState.DRAINING, WorkerState.DRAINED)


class Presence(StrEnum):
    """What is left of a worker: its leading process, only the others of its group, nothing."""

    RUNNING = "running"
    LEADERLESS = "leaderless"
    GONE = "gone"


class Authority(StrEnum):
    """What a supervisor may do. A caretaker led until the store fell silent: it keeps what runs.

    What it had begun to end waits until somebody leads: it can't hear who still uses a worker, nor
    tell anybody about a new one.
    """

    LEADER = "leader"
    CARETAKER = "caretaker"


class Act(StrEnum):
    """What the shell does to a worker's processes."""

    NONE = "none"
    START = "start"
    TERMINATE = "terminate"
    KILL = "kill"
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One wanted worker. Another digest means that a running one has to be replaced."""

    id: str
    pool: PoolRecord
    ordinal: int
    task: Task
    digest: str

    @property
    def is_idle(self) -> bool:
        """Whether it is to run without being sent anything."""
        return self.pool.power is PoolPower.DRAINED or self.ordinal in self.pool.cordoned


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was last seen of a worker. `failed_probes` counts those since the last good one."""

    presence: Presence
    is_ready: bool = False
    failed_probes: int = 0
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker as the supervisor knows it. Times are seconds of the supervisor's one clock.

    `failures` are deaths and refused starts in a row. `retry_at` is set while nothing runs.
    `drain_generation` is the generation of the directory that first showed it draining,
    `drain_token` that directory's fencing token. `told_at` is the time of its SIGTERM, `patience_s`
    what its requests get from `changed_at` on: for ever if it is drained to be kept.
    """

    id: str
    pool_id: str
    digest: str
    state: WorkerState
    changed_at: float
    base_url: str = ""
    drain_timeout_s: float = 30.0
    started_at: float | None = None
    ready_at: float | None = None
    restarts: int = 0
    failures: int = 0
    retry_at: float | None = None
    drain_generation: int | None = None
    drain_token: int = 0
    told_at: float | None = None
    patience_s: float = 0.0
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The worker as it is from now on, and what to do to make it so."""

    worker: Worker
    act: Act = Act.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What holds for all workers of one provisioner at one time.

    `owns_processes` is False where workers are only watched. `released` are draining workers that
    no gateway uses any more.
    """

    now: float
    authority: Authority
    owns_processes: bool = True
    released: frozenset[str] = frozenset()


def make_spec(pool: PoolRecord, ordinal: int, *, task: Task, digest: str) -> WorkerSpec:
    """One worker of a pool whose engines have this digest; its own restarts make it another."""
    restarts = pool.worker_restarts.get(str(ordinal), 0)
    own = f"{digest}+{restarts}" if restarts else digest
    return WorkerSpec(f"{pool.id}-{ordinal}", pool, ordinal, task, own)


def plan_workers(
    specs: Sequence[WorkerSpec],
    workers: Mapping[str, Worker],
    sightings: Mapping[str, Sighting],
    situation: Situation,
) -> tuple[Step, ...]:
    """Decide the next step of every worker that has one; those left out stay as they are."""
    wanted = {spec.id: spec for spec in specs}
    waiting = _awaiting_turn(specs, workers) if situation.owns_processes else frozenset()
    steps = []
    for worker_id in {**wanted, **workers}:
        worker, spec = workers.get(worker_id), wanted.get(worker_id)
        seen = sightings.get(worker_id, Sighting(Presence.GONE))
        if spec is not None and worker is not None:
            worker = replace(worker, drain_timeout_s=spec.pool.drain_timeout_s)
            spec = replace(spec, digest=worker.digest) if worker_id in waiting else spec
        step = _step(spec, worker, seen, situation) or (Step(worker) if worker else None)
        if step and (step.act is not Act.NONE or step.worker != workers.get(worker_id)):
            steps.append(step)
    return tuple(steps)


def _awaiting_turn(specs: Sequence[WorkerSpec], workers: Mapping[str, Worker]) -> frozenset[str]:
    """Ready workers of an older spec that stay until a sibling has proved the newer one."""
    pools: dict[str, list[WorkerSpec]] = {}
    for spec in sorted(specs, key=lambda spec: spec.ordinal):
        pools.setdefault(spec.pool.id, []).append(spec)
    waiting: set[str] = set()
    for siblings in pools.values():
        outdated = [one.id for one in siblings if _is_outdated_ready(one, workers.get(one.id))]
        is_settled = all(_is_settled(one, workers.get(one.id)) for one in siblings)
        waiting.update(outdated[1:] if is_settled else outdated)
    return frozenset(waiting)


def _is_settled(spec: WorkerSpec, worker: Worker | None) -> bool:
    """Whether a worker serves, or is out because an operator wants it out."""
    if worker is None:
        return False
    if spec.is_idle and worker.state in _SET_ASIDE:
        return worker.digest == spec.digest and worker.patience_s == math.inf
    return worker.state is WorkerState.READY


def _is_outdated_ready(spec: WorkerSpec, worker: Worker | None) -> bool:
    if worker is None or worker.state is not WorkerState.READY:
        return False
    return worker.digest != spec.digest


def _step(
    spec: WorkerSpec | None, worker: Worker | None, seen: Sighting, situation: Situation
) -> Step | None:
    if worker is None:
        is_leader = situation.authority is Authority.LEADER
        return _begin(spec, None, situation) if spec is not None and is_leader else None
    if not situation.owns_processes:
        return _watch(spec, worker, seen, situation)
    is_wanted = spec is not None and spec.digest == worker.digest
    if worker.state is WorkerState.DRAINING and worker.patience_s < math.inf:
        return _drain(spec, worker, seen, situation)
    if not is_wanted and situation.authority is Authority.LEADER:
        return _retire(spec, worker, seen, situation)
    return _tend(spec, worker, seen, situation) if spec is not None else None


def _begin(spec: WorkerSpec, former: Worker | None, situation: Situation) -> Step:
    """Start a worker; what it went through counts on only while its spec is the same."""
    known = former if former is not None and former.digest == spec.digest else None
    worker = Worker(
        id=spec.id,
        pool_id=spec.pool.id,
        digest=spec.digest,
        state=WorkerState.STARTING,
        changed_at=situation.now,
        base_url=former.base_url if former else "",
        drain_timeout_s=spec.pool.drain_timeout_s,
        started_at=situation.now,
        restarts=_restarts_after(known),
        failures=known.failures if known else 0,
    )
    if not situation.owns_processes:
        worker = _well(spec, worker, situation.now)
    return Step(worker, Act.START)


def _restarts_after(former: Worker | None) -> int:
    if former is None:
        return 0
    return former.restarts + (former.started_at is not None)


def _watch(
    spec: WorkerSpec | None, worker: Worker, seen: Sighting, situation: Situation
) -> Step | None:
    """Follow a server that is not ours: it is used unless it fails again and again."""
    if spec is None:
        return Step(worker, Act.FORGET)
    if spec.digest != worker.digest:
        return _begin(spec, None, situation)
    return _follow(spec, worker, seen, situation)


def _follow(spec: WorkerSpec, worker: Worker, seen: Sighting, situation: Situation) -> Step | None:
    """Between ready, drained and failed by what is wanted and what the probes say, while it lives.

    What is drained to be kept has all the time its requests take.
    """
    now, state = situation.now, worker.state
    if state is WorkerState.FAILED:
        return Step(_well(spec, worker, now)) if _is_well(seen) else None
    if seen.failed_probes >= FAILED_PROBES:
        failed = replace(worker, state=WorkerState.FAILED, changed_at=now, detail=seen.detail)
        return Step(failed)
    if spec.is_idle:
        if state is WorkerState.READY:
            return Step(_set_aside(worker, now))
        is_left = state is WorkerState.DRAINING and worker.id in situation.released
        return Step(replace(worker, state=WorkerState.DRAINED, changed_at=now)) if is_left else None
    return Step(_ready(worker, now)) if state is not WorkerState.READY and _is_well(seen) else None


def _is_well(seen: Sighting) -> bool:
    return seen.is_ready and seen.failed_probes == 0


def _well(spec: WorkerSpec, worker: Worker, now: float) -> Worker:
    """A worker that can serve, in the state that is wanted of it."""
    ready = _ready(worker, now)
    return _set_aside(ready, now) if spec.is_idle else ready


def _set_aside(worker: Worker, now: float) -> Worker:
    """A worker that is sent nothing new from now on and goes on running."""
    return replace(
        worker, state=WorkerState.DRAINING, changed_at=now, patience_s=math.inf, detail=None
    )


def _ready(worker: Worker, now: float) -> Worker:
    return replace(
        worker,
        state=WorkerState.READY,
        changed_at=now,
        ready_at=now,
        told_at=None,
        drain_generation=None,
        patience_s=0.0,
        detail=None,
    )


def _tend(spec: WorkerSpec, worker: Worker, seen: Sighting, situation: Situation) -> Step | None:
    """Care for a wanted worker that runs on its wanted spec, or should."""
    now = situation.now
    if worker.retry_at is not None:
        if seen.presence is not Presence.GONE:
            return Step(worker, Act.KILL)
        return _begin(spec, worker, situation) if now >= worker.retry_at else None
    if seen.presence is not Presence.RUNNING:
        act = Act.KILL if seen.presence is Presence.LEADERLESS else Act.NONE
        return Step(set_back(worker, seen.detail or "the engine ended", now), act)
    if worker.state is WorkerState.STARTING:
        return _prove(spec, worker, seen, now)
    if worker.state is WorkerState.FAILED and now - worker.changed_at >= UNHEALTHY_S:
        if not _is_well(seen):
            return Step(set_back(worker, seen.detail or "it no longer answers", now), Act.KILL)
    return _follow(spec, worker, seen, situation)


def _prove(spec: WorkerSpec, worker: Worker, seen: Sighting, now: float) -> Step | None:
    if seen.is_ready:
        return Step(_well(spec, worker, now))
    limit_s = spec.pool.start_timeout_s
    if now - (worker.started_at or now) >= limit_s:
        why = f"not ready within {limit_s} s"
        late = replace(
            set_back(worker, f"{why}: {seen.detail}" if seen.detail else why, now),
            state=WorkerState.FAILED,
            retry_at=now + LONGEST_BACKOFF_S,
        )
        return Step(late, Act.KILL)
    return Step(replace(worker, detail=seen.detail))


def _retire(spec: WorkerSpec | None, worker: Worker, seen: Sighting, situation: Situation) -> Step:
    """Begin the end of a worker that is wanted no more, or not like this."""
    now = situation.now
    if seen.presence is Presence.GONE:
        return Step(worker, Act.FORGET) if spec is None else _begin(spec, worker, situation)
    leaving = replace(worker, state=WorkerState.DRAINING, changed_at=now, retry_at=None)
    if worker.ready_at is not None:
        return Step(replace(leaving, patience_s=worker.drain_timeout_s, detail=None))
    return Step(replace(leaving, patience_s=0.0, told_at=now), Act.TERMINATE)


def _drain(
    spec: WorkerSpec | None, worker: Worker, seen: Sighting, situation: Situation
) -> Step | None:
    now = situation.now
    if situation.authority is Authority.CARETAKER:
        return None
    if seen.presence is Presence.GONE:
        return Step(worker, Act.FORGET) if spec is None else _begin(spec, worker, situation)
    deadline = worker.changed_at + worker.patience_s
    if seen.presence is Presence.LEADERLESS or now >= deadline + KILL_GRACE_S:
        return Step(worker, Act.KILL)
    if worker.told_at is not None:
        return None
    if spec is not None and spec.digest == worker.digest:
        if spec.is_idle:
            return Step(replace(worker, patience_s=math.inf))
        if _is_well(seen):
            return Step(_ready(worker, now))
    if worker.id in situation.released or now >= deadline:
        return Step(replace(worker, told_at=now), Act.TERMINATE)
    return None


def set_back(worker: Worker, why: str, now: float) -> Worker:
    """A worker that died: started again after a back-off that grows with each failure in a row."""
    is_stable = worker.ready_at is not None and now - worker.ready_at >= STABLE_S
    failures = 1 if is_stable else worker.failures + 1
    return replace(
        worker,
        state=WorkerState.BACKING_OFF,
        changed_at=now,
        ready_at=None,
        failures=failures,
        retry_at=now + backoff_s(failures),
        detail=why,
    )


def refused(worker: Worker, why: str, now: float) -> Worker:
    """A worker whose start was not even tried, for instance for want of a free port."""
    return replace(set_back(worker, why, now), started_at=None)


def backoff_s(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    doublings = min(max(failures, 1) - 1, 30)
    return min(FIRST_BACKOFF_S * 2.0**doublings, LONGEST_BACKOFF_S)

"""Workers, specs and sightings to plan with."""

from dataclasses import replace

from inference.contract.kinds import Backend, Provisioner, Task, WorkerState
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import (
    Authority,
    Presence,
    Sighting,
    Situation,
    Step,
    Worker,
    WorkerSpec,
    plan_workers,
)

NOW = 1_000.0
POOL = PoolRecord(
    id="pool_a",
    organisation_id="org_a",
    name="smol",
    model_id="mdl_a",
    provisioner=Provisioner.PROCESS,
    backend=Backend.VLLM,
    served_model_name="smol",
    start_timeout_s=600,
    drain_timeout_s=30,
)
GONE = Sighting(Presence.GONE)
ALIVE = Sighting(Presence.RUNNING)
GOOD = Sighting(Presence.RUNNING, is_ready=True)


def spec(ordinal: int = 0, digest: str = "old", pool: PoolRecord = POOL) -> WorkerSpec:
    return WorkerSpec(f"{pool.id}-{ordinal}", pool, ordinal, Task.GENERATE, digest)


def worker(state: WorkerState, ordinal: int = 0, **fields: object) -> Worker:
    plain = Worker(
        id=f"pool_a-{ordinal}",
        pool_id="pool_a",
        digest="old",
        state=state,
        changed_at=NOW - 10,
        base_url="http://127.0.0.1:8501/v1",
        started_at=NOW - 40,
        ready_at=NOW - 10 if state is WorkerState.READY else None,
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def plan(
    specs: list[WorkerSpec],
    workers: list[Worker],
    seen: Sighting = GOOD,
    *,
    now: float = NOW,
    authority: Authority = Authority.LEADER,
    owns_processes: bool = True,
    released: frozenset[str] = frozenset(),
    **sightings: Sighting,
) -> tuple[Step, ...]:
    """Plan with one sighting for all, or one for each ordinal as `w0=…`."""
    return plan_workers(
        specs,
        {one.id: one for one in workers},
        {one.id: sightings.get(f"w{one.id[-1]}", seen) for one in workers},
        Situation(now=now, authority=authority, owns_processes=owns_processes, released=released),
    )


def only(steps: tuple[Step, ...]) -> Step:
    assert len(steps) == 1, steps
    return steps[0]

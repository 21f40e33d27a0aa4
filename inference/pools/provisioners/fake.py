"""Workers without processes, for tests of the supervisor and for simulations of whole fleets.

They become ready a given time after their start, end when they are told to, and can be made to
fail. They answer no requests: routes should not point at them where answers matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inference.contract.kinds import Task
from inference.contract.sealing import content_digest
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Presence, Sighting, Worker, WorkerSpec, make_spec
from inference.pools.base import Host, Source, StartRefused

READY_AFTER_S = 1.0
FIRST_PORT = 9
"""The port of the discard service: nothing answers there."""


@dataclass(frozen=True, slots=True)
class _Pretended:
    started_at: float
    presence: Presence = Presence.RUNNING
    is_stubborn: bool = False


class FakeProvisioner:
    """Workers that are a dictionary entry each. `starts` lists the ids started so far, in order."""

    owns_processes = True
    uses_derived_key = False

    def __init__(self, *, clock: Callable[[], float], ready_after_s: float = READY_AFTER_S) -> None:
        self.starts: list[str] = []
        self.told: list[str] = []
        self.refusal: str | None = None
        self._clock = clock
        self._ready_after_s = ready_after_s
        self._workers: dict[str, _Pretended] = {}

    def specs(self, pool: PoolRecord, task: Task) -> tuple[WorkerSpec, ...]:
        words = (pool.served_model_name, pool.restart_generation, sorted(pool.engine_arguments))
        digest = content_digest(repr(words).encode())
        return tuple(
            make_spec(pool, ordinal, task=task, digest=digest) for ordinal in range(pool.replicas)
        )

    async def recover(self) -> tuple[Worker, ...]:
        return ()

    async def start(self, spec: WorkerSpec) -> str:
        base_url = f"http://127.0.0.1:{FIRST_PORT + spec.ordinal}/v1"
        if self.refusal is not None:
            raise StartRefused(self.refusal, base_url=base_url)
        self.starts.append(spec.id)
        self._workers[spec.id] = _Pretended(self._clock())
        return base_url

    def sight(self, worker_id: str) -> Sighting:
        worker = self._workers.get(worker_id)
        if worker is None:
            return Sighting(Presence.GONE)
        is_ready = self._clock() - worker.started_at >= self._ready_after_s
        return Sighting(worker.presence, is_ready)

    def terminate(self, worker_id: str) -> None:
        self.told.append(worker_id)
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.is_stubborn:
            del self._workers[worker_id]

    def kill(self, worker_id: str) -> None:
        self._workers.pop(worker_id, None)

    def forget(self, worker_id: str) -> None:
        self._workers.pop(worker_id, None)

    def source_of(self, worker_id: str) -> Source | None:
        return None

    def log_of(self, worker_id: str) -> Path | None:
        return None

    async def close(self) -> None:
        return

    def die(self, worker_id: str, *, leaving: Presence = Presence.GONE) -> None:
        """Make a worker's leader die; `leaving` says what is left of its group."""
        self._workers[worker_id] = replace(self._workers[worker_id], presence=leaving)

    def ignore_signals(self, worker_id: str) -> None:
        """Make a worker end only when it is killed."""
        self._workers[worker_id] = replace(self._workers[worker_id], is_stubborn=True)


def build(host: Host) -> FakeProvisioner:
    """Make one for this host."""
    return FakeProvisioner(clock=host.clock)

"""What a provisioner promises: it gets workers, watches them without being asked, and ends them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from inference.contract.kinds import Task
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Sighting, Worker, WorkerSpec
from inference.pools.probes import ProbeClient
from inference.settings import Settings


class StartRefused(Exception):
    """The worker could not even be started; the message says in words why.

    `base_url` is where it would have listened.
    """

    def __init__(self, why: str, *, base_url: str) -> None:
        super().__init__(why)
        self.base_url = base_url


class PoolProvisioner(Protocol):
    """One way of getting workers.

    `owns_processes` says that its workers are started, drained and ended by us; otherwise they are
    only watched. `uses_derived_key` says that they want `sealing.worker_key`. Except `start`,
    nothing here waits for a worker: probes run in the background and `sight` tells what they saw.
    """

    owns_processes: bool
    uses_derived_key: bool

    def specs(self, pool: PoolRecord, task: Task) -> tuple[WorkerSpec, ...]:
        """The workers a running pool wants."""
        ...

    async def recover(self) -> tuple[Worker, ...]:
        """Find workers that outlived the supervisor that started them, and watch them again.

        What is left of dead ones is ended and forgotten.
        """
        ...

    async def start(self, spec: WorkerSpec) -> str:
        """Start a worker of which nothing is left, and return its base URL. Raises StartRefused."""
        ...

    def sight(self, worker_id: str) -> Sighting:
        """What is known of a worker now; an unknown one is gone."""
        ...

    def terminate(self, worker_id: str) -> None:
        """Ask it to finish what runs and to end."""
        ...

    def kill(self, worker_id: str) -> None:
        """End all of it now."""
        ...

    def forget(self, worker_id: str) -> None:
        """Drop what is kept of a worker that is gone."""
        ...

    async def close(self) -> None:
        """Stop watching; workers go on, to be recovered by whoever comes next."""
        ...


@dataclass(frozen=True, slots=True)
class Host:
    """What a provisioner may use of the machine it works on."""

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    clock: Callable[[], float]
    probes: ProbeClient

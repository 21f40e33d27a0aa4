"""What a provisioner promises: it gets workers, watches them without being asked, and ends them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inference.contract.kinds import Task
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Sighting, Worker, WorkerSpec
from inference.pools.groups import GroupRecord
from inference.pools.probes import ProbeCall, ProbeClient
from inference.settings import Settings

METRICS_TIMEOUT_S = 2.0
"""A busy engine's server answers later than an idle one, and its load is of interest then."""


def metrics_call(url: str, *, bearer: str | None = None) -> ProbeCall:
    """How a server is asked for its metrics."""
    return ProbeCall(url=url, timeout_s=METRICS_TIMEOUT_S, bearer=bearer, accept="text/plain")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a worker is measured: what to ask its server, and its group on this host.

    `metrics` is None if the server is not known to tell, `group` if it is no process of ours.
    """

    metrics: ProbeCall | None
    group: GroupRecord | None = None


@dataclass(frozen=True, slots=True)
class Measurable:
    """A ready worker and where it is measured."""

    worker_id: str
    pool_id: str
    source: Source


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

    def source_of(self, worker_id: str) -> Source | None:
        """Where a worker is measured; None if it can't be."""
        ...

    def log_of(self, worker_id: str) -> Path | None:
        """The file such a worker prints to, there or not; None if we have no logs of its kind."""
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

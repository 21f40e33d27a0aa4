"""The directory of workers: written by the supervisor that leads, read by every gateway."""

from dataclasses import dataclass

from inference.contract.kinds import WorkerState


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    """One worker. `base_url` ends before the endpoint's own path, usually in `/v1`.

    `uses_derived_key` says that the worker's key is `sealing.worker_key(data_key, id)`; otherwise
    the pool's credential is sent. `detail` says in words why it isn't ready.
    """

    id: str
    pool_id: str
    base_url: str
    state: WorkerState
    changed_at: float
    uses_derived_key: bool = False
    restarts: int = 0
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Directory:
    """All workers at one generation. A writer with an older fencing token is refused."""

    fencing_token: int
    generation: int
    written_at: float
    workers: tuple[WorkerEntry, ...]

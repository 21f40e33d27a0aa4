"""A gateway's live view of the workers: which are ready, and what this process has sent to each.

Workers come from the snapshot (those of static pools) and from the directory, which has the last
word on their state. A worker keeps its counter for as long as it keeps its id, so that a drain sees
the requests that are still under way when it has left both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import Endpoint, PoolPower, Provisioner, WorkerState
from inference.contract.sealing import SealError, decrypt, worker_key
from inference.contract.snapshot import ConfigSnapshot, PoolRecord
from inference.workers.connections import Origin, path_of

log = structlog.get_logger(__name__)

ENDPOINT_PATHS: Mapping[Endpoint, str] = {Endpoint.CHAT: "/chat/completions"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens and what opens it: ready to be sent to. Never logged or shown."""

    base_url: str
    origin: Origin
    paths: Mapping[Endpoint, bytes]
    authorization: bytes

    def __repr__(self) -> str:
        return f"Address({self.base_url!r})"


class Worker:
    """One worker as this process sees it; `inflight` counts the leases that are out."""

    __slots__ = ("address", "id", "inflight", "pool_id", "state")

    def __init__(self, worker_id: str, pool_id: str, address: Address, state: WorkerState) -> None:
        self.id = worker_id
        self.pool_id = pool_id
        self.address = address
        self.state = state
        self.inflight = 0

    def lease(self) -> "Lease":
        """Count one request; its lease takes it back."""
        self.inflight += 1
        return Lease(self)


class Lease:
    """One request counted against one worker, until it is released, which counts once."""

    __slots__ = ("_worker",)

    def __init__(self, worker: Worker) -> None:
        self._worker: Worker | None = worker

    def release(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.inflight -= 1


class FleetRegistry:
    """All workers of a process. `apply_snapshot` and `apply_directory` are listeners: no failing.

    `origin_of` gives the connections to a base URL; `data_key` opens credentials.
    """

    def __init__(self, *, origin_of: Callable[[str], Origin], data_key: bytes) -> None:
        self._origin_of = origin_of
        self._data_key = data_key
        self._snapshot: ConfigSnapshot | None = None
        self._directory: Directory | None = None
        self._workers: dict[str, Worker] = {}
        self._leaving: list[Worker] = []
        self._ready: Mapping[str, tuple[Worker, ...]] = {}
        self._opened: dict[str, str | None] = {}

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Take a new configuration."""
        self._snapshot = snapshot
        self._rebuild()

    def apply_directory(self, directory: Directory) -> None:
        """Take a new directory."""
        self._directory = directory
        self._rebuild()

    @property
    def directory_generation(self) -> int | None:
        """The generation this view follows, None before the first."""
        return None if self._directory is None else self._directory.generation

    def ready(self, pool_id: str) -> tuple[Worker, ...]:
        """The workers of a pool that may be sent to."""
        return self._ready.get(pool_id, ())

    def inflight(self) -> dict[str, int]:
        """Requests under way by worker id, zeros included for workers that are there."""
        self._leaving = [worker for worker in self._leaving if worker.inflight]
        counts = {worker.id: worker.inflight for worker in self._workers.values()}
        for worker in self._leaving:
            counts[worker.id] = counts.get(worker.id, 0) + worker.inflight
        return counts

    def _rebuild(self) -> None:
        if self._snapshot is None:
            return
        before, self._workers = self._workers, {}
        opened, self._opened = self._opened, {}
        for pool, entry in _entries(self._snapshot, self._directory):
            address = self._address(pool, entry, opened)
            if address is not None:
                self._workers[entry.id] = _updated(before.pop(entry.id, None), entry, address)
        self._leaving.extend(worker for worker in before.values() if worker.inflight)
        self._ready = _by_pool(self._workers.values())

    def _address(
        self, pool: PoolRecord, entry: WorkerEntry, opened: Mapping[str, str | None]
    ) -> Address | None:
        """Everything needed to send to a worker, or None if something of it can't be used."""
        credential: str | None = ""
        if entry.uses_derived_key:
            credential = worker_key(self._data_key, entry.id)
        elif pool.credential is not None:
            credential = self._open(pool, opened)
        if credential is None:
            return None
        authorization = f"Bearer {credential}".encode() if credential else b""
        try:
            return self._located(entry.base_url, authorization)
        except ValueError:
            log.error("worker address unusable", worker_id=entry.id)
            return None

    def _located(self, base_url: str, authorization: bytes) -> Address:
        """Raises ValueError if it is no URL."""
        return Address(
            base_url=base_url,
            origin=self._origin_of(base_url),
            paths={end: path_of(base_url, path) for end, path in ENDPOINT_PATHS.items()},
            authorization=authorization,
        )

    def _open(self, pool: PoolRecord, opened: Mapping[str, str | None]) -> str | None:
        sealed = pool.credential or ""
        if sealed in opened:
            secret = opened[sealed]
        else:
            secret = _open_credential(self._data_key, sealed, pool_id=pool.id)
        self._opened[sealed] = secret
        return secret


def _entries(
    snapshot: ConfigSnapshot, directory: Directory | None
) -> Iterator[tuple[PoolRecord, WorkerEntry]]:
    """Every worker there should be: static pools' addresses, and the rest of the directory."""
    listed = {} if directory is None else {entry.id: entry for entry in directory.workers}
    for pool in snapshot.pools.values():
        if pool.provisioner is Provisioner.STATIC and pool.power is PoolPower.RUNNING:
            for index, base_url in enumerate(pool.addresses):
                yield pool, _static_entry(pool, index, base_url, listed)
    for entry in listed.values():
        owner = snapshot.pools.get(entry.pool_id)
        if owner is not None and owner.provisioner is not Provisioner.STATIC:
            yield owner, entry


def _static_entry(
    pool: PoolRecord, index: int, base_url: str, listed: Mapping[str, WorkerEntry]
) -> WorkerEntry:
    """Ready until the directory says otherwise of this very address: a new one serves at once."""
    worker_id = f"{pool.id}-{index}"
    entry = listed.get(worker_id)
    if entry is not None and entry.base_url == base_url:
        return entry
    return WorkerEntry(worker_id, pool.id, base_url, WorkerState.READY, changed_at=0.0)


def _updated(worker: Worker | None, entry: WorkerEntry, address: Address) -> Worker:
    if worker is None:
        return Worker(entry.id, entry.pool_id, address, entry.state)
    worker.pool_id = entry.pool_id
    worker.address = address
    worker.state = entry.state
    return worker


def _by_pool(workers: Iterable[Worker]) -> dict[str, tuple[Worker, ...]]:
    pools: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.state is WorkerState.READY:
            pools.setdefault(worker.pool_id, []).append(worker)
    return {pool_id: tuple(ready) for pool_id, ready in pools.items()}


def _open_credential(data_key: bytes, sealed: str, *, pool_id: str) -> str | None:
    try:
        secret = decrypt(data_key, sealed)
    except SealError:
        secret = ""
    if secret.isascii() and secret.isprintable() and secret:
        return secret
    log.error("pool credential unusable", pool_id=pool_id)
    return None

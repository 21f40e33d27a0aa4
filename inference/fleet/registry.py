"""A gateway's live view of the workers: which may be sent to, and what was sent to each.

Workers come from the snapshot (those of static pools) and from the directory, which has the last
word on their state. A worker keeps its counter for as long as it keeps its id, so that a drain sees
the requests that are still under way when it has left both.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import structlog

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import (
    BreakerState,
    Endpoint,
    PoolPower,
    Provisioner,
    WorkerState,
)
from inference.contract.sealing import SealError, decrypt, worker_key
from inference.contract.snapshot import ConfigSnapshot, PoolRecord
from inference.decisions.breaker import (
    CLOSED,
    Breaker,
    Capacity,
    capacity_of,
    policy_of,
    set_aside,
)
from inference.fleet.breakers import WorkerBreaker
from inference.fleet.peers import PeerLoad
from inference.fleet.prefixes import salt_of
from inference.fleet.worker import USUAL_CONCURRENCY, Address, Worker
from inference.workers.connections import Origin, path_of, root_path_of

log = structlog.get_logger(__name__)

ENDPOINT_PATHS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "/chat/completions",
    Endpoint.COMPLETIONS: "/completions",
    Endpoint.EMBEDDINGS: "/embeddings",
}
"""Below a worker's base URL, which usually ends in `/v1`."""

ROOT_PATHS: Mapping[Endpoint, str] = {
    Endpoint.TOKENIZE: "/tokenize",
    Endpoint.DETOKENIZE: "/detokenize",
}
"""Beside `/v1`, where vLLM has what is not OpenAI's."""


_NOBODY: Capacity[Worker] = Capacity(())


class FleetRegistry:
    """All workers of a process. `apply_snapshot` and `apply_directory` are listeners: no failing.

    `origin_of` gives the connections to a base URL; `data_key` opens credentials; `chance` gives
    numbers in [0, 1); `opened` is told the pool of each worker whose breaker opens.
    """

    def __init__(
        self,
        *,
        origin_of: Callable[[str], Origin],
        data_key: bytes,
        chance: Callable[[], float] = random.random,
        opened: Callable[[str], None] | None = None,
    ) -> None:
        self._origin_of = origin_of
        self._data_key = data_key
        self._chance = chance
        self._opened_breaker = opened
        self._suspects: set[str] = set()
        self._aside: set[str] = set()
        self._snapshot: ConfigSnapshot | None = None
        self._directory: Directory | None = None
        self._workers: dict[str, Worker] = {}
        self._leaving: list[Worker] = []
        self._ready: Mapping[str, Capacity[Worker]] = {}
        self._loads: Mapping[str, PeerLoad] = {}
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

    @property
    def directory_token(self) -> int | None:
        """The fencing token that this directory was written with, None before the first."""
        return None if self._directory is None else self._directory.fencing_token

    def ready(self, pool_id: str) -> tuple[Worker, ...]:
        """The workers of a pool that are ready, whatever their breakers say."""
        return tuple(self._ready.get(pool_id, _NOBODY).workers)

    def capacity(self, pool_id: str, now_s: float) -> Capacity[Worker]:
        """The workers of a pool that may be sent to now; the time is the breakers' clock's."""
        capacity = self._ready.get(pool_id, _NOBODY)
        if self._suspects:
            capacity = self._admitted(pool_id, capacity, now_s)
        if self._aside and (aside := self._aside_now(now_s)):
            return set_aside(capacity, [one for one in capacity.workers if one.id in aside])
        return capacity

    @property
    def has_set_aside(self) -> bool:
        """Whether anybody may be set aside: False is sure."""
        return bool(self._aside)

    def set_aside(self, pool_ids: Iterable[str], now_s: float) -> tuple[str, ...]:
        """Which workers of these pools said "not now" of late and are passed over for others."""
        aside = self._aside_now(now_s)
        return tuple(
            one.id for pool_id in pool_ids for one in self.ready(pool_id) if one.id in aside
        )

    def breakers(self, now_s: float) -> dict[str, BreakerState]:
        """The breakers that are not closed, by worker id."""
        return {one: self._workers[one].breaker.shown(now_s) for one in sorted(self._suspects)}

    def open_breakers(self) -> dict[str, int]:
        """How many workers of each pool have a breaker that is not closed."""
        counts = dict.fromkeys(self._ready, 0)
        for worker_id in self._suspects:
            pool_id = self._workers[worker_id].pool_id
            counts[pool_id] = counts.get(pool_id, 0) + 1
        return counts

    def apply_loads(self, loads: Mapping[str, PeerLoad]) -> None:
        """Take what the other processes have under way."""
        self._loads = loads
        for worker in self._workers.values():
            _take_load(worker, loads.get(worker.id))

    def prefill_tokens(self) -> dict[str, int]:
        """Prompt tokens that were sent, are not cached there and not answered, by worker id."""
        everybody = (*self._workers.values(), *self._leaving)
        counts: dict[str, int] = {}
        for one in everybody:
            if one.prefill_tokens:
                counts[one.id] = counts.get(one.id, 0) + one.prefill_tokens
        return counts

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
                worker = self._updated(before.pop(entry.id, None), entry, address)
                worker.concurrency = _concurrency_of(pool)
                worker.breaker.policy = policy_of(pool)
                if _is_cordoned(pool, entry) and worker.state is WorkerState.READY:
                    worker.state = WorkerState.DRAINING
                self._workers[entry.id] = worker
        self._leaving.extend(worker for worker in before.values() if worker.inflight)
        self._ready = _by_pool(self._workers.values())
        everybody = self._workers.values()
        self._suspects = {one.id for one in everybody if one.breaker.value is not CLOSED}
        self._aside = {one.id for one in everybody if one.breaker.aside_until}

    def _admitted(self, pool_id: str, ready: Capacity[Worker], now_s: float) -> Capacity[Worker]:
        """Those of a pool's ready workers whose breakers let an attempt through."""
        admitted = tuple(one for one in ready.workers if one.breaker.lets_through(now_s))
        if self._snapshot is None or len(admitted) == len(ready.workers):
            return ready
        pool = self._snapshot.pools[pool_id]
        return capacity_of(ready.workers, admitted, panic_percent=pool.panic_percent)

    def _aside_now(self, now_s: float) -> Collection[str]:
        """Who is set aside, without those whose time is over."""
        over = [one for one in self._aside if self._workers[one].breaker.aside_until <= now_s]
        self._aside.difference_update(over)
        return self._aside

    def _updated(self, worker: Worker | None, entry: WorkerEntry, address: Address) -> Worker:
        life = f"{entry.id} {entry.restarts} {entry.base_url}"
        if worker is None:
            breaker = self._breaker_of(entry)
            worker = Worker(
                entry.id,
                entry.pool_id,
                address,
                entry.state,
                breaker=breaker,
                life=life,
                salt=salt_of(life),
            )
            _take_load(worker, self._loads.get(entry.id))
        elif worker.life != life:
            worker.begin_life(life, salt=salt_of(life), breaker=self._breaker_of(entry))
        worker.pool_id = entry.pool_id
        worker.address = address
        worker.state = entry.state
        return worker

    def _breaker_of(self, entry: WorkerEntry) -> WorkerBreaker:
        assert self._snapshot is not None
        return WorkerBreaker(
            policy_of(self._snapshot.pools[entry.pool_id]),
            chance=self._chance,
            changed=partial(self._note_breaker, entry.id, entry.pool_id),
        )

    def _note_breaker(
        self,
        worker_id: str,
        pool_id: str,
        breaker: WorkerBreaker,
        before: Breaker,
        after: Breaker,
    ) -> None:
        worker = self._workers.get(worker_id)
        if worker is None or worker.breaker is not breaker:
            return  # of a life that is over: nobody is sent there any more
        _keep(self._suspects, worker_id, is_in=after is not CLOSED)
        _keep(self._aside, worker_id, is_in=breaker.aside_until > 0)
        if before is after:
            return
        if after.openings > before.openings:
            log.warning("breaker opened", worker_id=worker_id, in_a_row=after.openings)
            if self._opened_breaker is not None:
                self._opened_breaker(pool_id)
        elif after is CLOSED:
            log.info("breaker closed", worker_id=worker_id)

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
            paths=_paths(base_url),
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


def _paths(base_url: str) -> dict[Endpoint, bytes]:
    paths = {one: path_of(base_url, path) for one, path in ENDPOINT_PATHS.items()}
    return paths | {one: root_path_of(base_url, path) for one, path in ROOT_PATHS.items()}


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


def _concurrency_of(pool: PoolRecord) -> int:
    """How many requests one worker of the pool runs at once, as far as anybody said."""
    if pool.worker_concurrency is not None:
        return max(pool.worker_concurrency, 1)
    stated = pool.engine_arguments.get("max_num_seqs")
    return stated if isinstance(stated, int) and stated > 0 else USUAL_CONCURRENCY


def _is_cordoned(pool: PoolRecord, entry: WorkerEntry) -> bool:
    """Whether the configuration has it drained; a cordon holds at once, without a supervisor."""
    return any(entry.id == f"{pool.id}-{ordinal}" for ordinal in pool.cordoned)


def _take_load(worker: Worker, load: PeerLoad | None) -> None:
    worker.peers_inflight = 0 if load is None else load.inflight
    worker.peers_prefill_tokens = 0 if load is None else load.prefill_tokens
    worker.kv_used = None if load is None else load.kv_used


def _keep(ids: set[str], worker_id: str, *, is_in: bool) -> None:
    if is_in:
        ids.add(worker_id)
    else:
        ids.discard(worker_id)


def _by_pool(workers: Iterable[Worker]) -> dict[str, Capacity[Worker]]:
    pools: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.state is WorkerState.READY:
            pools.setdefault(worker.pool_id, []).append(worker)
    return {pool_id: Capacity(tuple(ready)) for pool_id, ready in pools.items()}


def _open_credential(data_key: bytes, sealed: str, *, pool_id: str) -> str | None:
    try:
        secret = decrypt(data_key, sealed)
    except SealError:
        secret = ""
    if secret.isascii() and secret.isprintable() and secret:
        return secret
    log.error("pool credential unusable", pool_id=pool_id)
    return None

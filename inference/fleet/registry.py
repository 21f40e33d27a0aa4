"""A gateway's live view of the workers: which may be sent to, and what was sent to each.

Workers come from the snapshot (those of static pools) and from the directory, which has the last
word on their state. A worker keeps its counter for as long as it keeps its id, so that a drain sees
the requests that are still under way when it has left both.
"""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import structlog

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import (
    BreakerState,
    Endpoint,
    PoolPower,
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
from inference.decisions.queueing import ALONE, Crowd
from inference.decisions.roster import concurrency_of, entries_of, slots_said, state_of
from inference.fleet.breakers import WorkerBreaker
from inference.fleet.peers import PeerLoad
from inference.fleet.prefixes import salt_of
from inference.fleet.worker import Address, Worker
from inference.workers.connections import Origin, path_of, root_path_of

log = structlog.get_logger(__name__)

ENDPOINT_PATHS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "/chat/completions",
    Endpoint.COMPLETIONS: "/completions",
    Endpoint.RESPONSES: "/responses",
    Endpoint.MESSAGES: "/messages",
    Endpoint.EMBEDDINGS: "/embeddings",
    Endpoint.COUNT_TOKENS: "/messages/count_tokens",
}
"""Below a worker's base URL, which usually ends in `/v1`."""

ROOT_PATHS: Mapping[Endpoint, str] = {
    Endpoint.RERANK: "/rerank",
    Endpoint.SCORE: "/score",
    Endpoint.TOKENIZE: "/tokenize",
    Endpoint.DETOKENIZE: "/detokenize",
}
"""Beside `/v1`, where vLLM has what is not OpenAI's."""


_NOBODY: Capacity[Worker] = Capacity(())


class FleetRegistry:
    """All workers of a process. `apply_snapshot` and `apply_directory` are listeners: no failing.

    `origin_of` gives the connections to a base URL; `data_key` opens credentials; `chance` gives
    numbers in [0, 1); `opened` is told the pool of each worker whose breaker opens. `crowd` are the
    gateway processes to reckon with until their vitals were read.
    """

    def __init__(
        self,
        *,
        origin_of: Callable[[str], Origin],
        data_key: bytes,
        chance: Callable[[], float] = random.random,
        opened: Callable[[str], None] | None = None,
        crowd: Crowd = ALONE,
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
        self._crowd = crowd
        self._is_crowd_fresh = False
        self._freed: Callable[[str], None] | None = None
        self._changed: Callable[[], None] | None = None

    def watch_seats(self, *, freed: Callable[[str], None], changed: Callable[[], None]) -> None:
        """Have `freed` told the pool whose worker may have room again; `changed` is if any may."""
        self._freed, self._changed = freed, changed
        self._rebuild()

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Take a new configuration; workers are looked at only if a pool of it is new."""
        is_same = self._snapshot is not None and self._snapshot.pools is snapshot.pools
        self._snapshot = snapshot
        if is_same:
            self._tell_changed()
        else:
            self._rebuild()

    def apply_directory(self, directory: Directory) -> None:
        """Take a new directory."""
        self._directory = directory
        self._rebuild()

    @property
    def crowd(self) -> Crowd:
        """The gateway processes it reckons with."""
        return self._crowd

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

    def seats(self, pool_id: str, now_s: float) -> Sequence[Worker]:
        """The workers of a pool that may be sent to now, full or not, the preferred ones."""
        capacity = self.capacity(pool_id, now_s)
        return capacity.workers or capacity.aside

    def is_wanted(self, pool_id: str) -> bool:
        """Whether the configuration has the pool run."""
        pool = None if self._snapshot is None else self._snapshot.pools.get(pool_id)
        return pool is not None and pool.power is PoolPower.RUNNING

    def use_of(self, pool_id: str) -> tuple[int, int | None]:
        """What all have under way at a pool's ready workers, and how much these take.

        None is without bound: of one of them nobody said how much it takes.
        """
        workers = self._ready.get(pool_id, _NOBODY).workers
        slots = [one.slots for one in workers]
        busy = sum(one.inflight + one.peers_inflight for one in workers)
        return busy, None if None in slots else sum(most or 0 for most in slots)

    def queued_elsewhere(self, pool_id: str) -> int:
        """How many requests wait for a pool at the other processes, as they last said."""
        return self._crowd.queued.get(pool_id, 0)

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

    def apply_loads(self, loads: Mapping[str, PeerLoad], crowd: Crowd | None = None) -> None:
        """Take what the other processes have under way, and who they are; None is not known now."""
        self._loads = loads
        self._crowd = crowd or self._crowd
        self._is_crowd_fresh = crowd is not None
        for worker in self._workers.values():
            _take_load(worker, loads.get(worker.id))
            worker.share_slots(self._crowd, is_fresh=self._is_crowd_fresh)
        self._tell_changed()

    def prefill_tokens(self) -> dict[str, int]:
        """Prompt tokens that were sent, are not cached there and not answered, by worker id."""
        everybody = (*self._workers.values(), *self._leaving)
        counts: dict[str, int] = {}
        for one in everybody:
            if one.prefill_tokens:
                counts[one.id] = counts.get(one.id, 0) + one.prefill_tokens
        return counts

    def inflight(self) -> dict[str, int]:
        """Requests under way by worker id, zeros included for workers that are there.

        Those count that are about to be sent: their slot is taken.
        """
        self._leaving = [worker for worker in self._leaving if worker.inflight]
        counts = {one.id: one.inflight + one.promised for one in self._workers.values()}
        for worker in self._leaving:
            counts[worker.id] = counts.get(worker.id, 0) + worker.inflight
        return counts

    def tell_inflight(self, now_s: float) -> dict[str, int]:
        """The same for the other processes: from now on this one shares slots by what it said."""
        for worker in self._workers.values():
            worker.tell(now_s)
            worker.share_slots(self._crowd, is_fresh=self._is_crowd_fresh)
        return self.inflight()

    def _rebuild(self) -> None:
        if self._snapshot is None:
            return
        before, self._workers = self._workers, {}
        opened, self._opened = self._opened, {}
        for pool, entry in entries_of(self._snapshot, self._directory):
            address = self._address(pool, entry, opened)
            if address is not None:
                worker = self._updated(before.pop(entry.id, None), entry, address)
                worker.concurrency = concurrency_of(pool)
                worker.slots = slots_said(pool)
                worker.on_freed = self._freed
                worker.share_slots(self._crowd, is_fresh=self._is_crowd_fresh)
                worker.breaker.policy = policy_of(pool)
                worker.state = state_of(pool, entry)
                self._workers[entry.id] = worker
        self._leaving.extend(worker for worker in before.values() if worker.inflight)
        self._ready = _by_pool(self._workers.values())
        everybody = self._workers.values()
        self._suspects = {one.id for one in everybody if one.breaker.value is not CLOSED}
        self._aside = {one.id for one in everybody if one.breaker.aside_until}
        self._tell_changed()

    def _tell_changed(self) -> None:
        if self._changed is not None:
            self._changed()

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
            if self._freed is not None:
                self._freed(pool_id)

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

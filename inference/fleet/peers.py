"""What the other gateway processes have under way, and how full caches are: read each second."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import structlog
from redis.asyncio import Redis

from inference.contract.codec import CodecError, decode_vitals
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import VITALS_LIFE_S, VITALS_PERIOD_S, Vitals
from inference.contract.wire import SEEN, vitals_key
from inference.decisions.queueing import ALONE, HEARD_S, TOLD_S, Crowd, turn_of
from inference.store import STORE_TROUBLE, StoreHealth

Identity = tuple[int, float]
"""Process id and time of start: a process keeps them whatever name it writes under."""

# Two scrapes, and half a second for the way through the store.
KV_FRESH_S = HEARD_S

# Those seen last; a fleet has tens of processes, and the set keeps the dead for an hour.
_MOST_PROCESSES = 1_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class PeerLoad:
    """What all other processes know of one worker; `kv_used` is None if nothing fresh is."""

    inflight: int = 0
    prefill_tokens: int = 0
    kv_used: float | None = None


def loads_of(records: Iterable[Vitals], *, own: Identity, now: float) -> dict[str, PeerLoad]:
    """The others' load by worker id, from their vitals.

    `own` is ourselves: the name is no sign of it, as that of a process without its parent is
    another's soon.
    """
    loads: dict[str, PeerLoad] = {}
    for record in records:
        if (record.pid, record.started_at) == own:
            continue
        if record.role is ProcessRole.GATEWAY:
            for worker_id, count in record.inflight.items():
                loads.setdefault(worker_id, PeerLoad()).inflight += max(count, 0)
            for worker_id, tokens in record.prefill_tokens.items():
                loads.setdefault(worker_id, PeerLoad()).prefill_tokens += max(tokens, 0)
        for gauges in record.workers:
            if gauges.kv_used is not None and now - gauges.at <= KV_FRESH_S:
                loads.setdefault(gauges.worker_id, PeerLoad()).kv_used = gauges.kv_used
    return loads


def crowd_of(records: Iterable[Vitals], *, own: Identity, now: float) -> Crowd:
    """The gateway processes that are alive, `own` being ourselves, written down yet or not."""
    others = [
        one
        for one in records
        if one.role is ProcessRole.GATEWAY and (one.pid, one.started_at) != own
    ]
    queued: dict[str, int] = {}
    for record in others:
        for pool_id, count in record.queued.items():
            queued[pool_id] = queued.get(pool_id, 0) + max(count, 0)
    place = sum((one.pid, one.started_at) < own for one in others)
    return Crowd(len(others) + 1, turn_of(place, now), queued)


class Peers:
    """Reads the vitals of all processes while it runs and gives their load to `apply`.

    It is given the crowd they are as well, or None while the figures are old. `clock` gives seconds
    since the epoch, `stopwatch` those that pass. While the store is away the last load stands for
    as long as a vitals record lives, and a cache's figure as long as it is fresh; then there is
    none. Whoever is missing has not said that it takes nothing: the crowd counts it for `TOLD_S`
    more. When the store is back figures are old until all may have written theirs. `crowd` is the
    one to begin with.
    """

    def __init__(
        self,
        client: Redis,
        own: Identity,
        *,
        apply: Callable[[Mapping[str, PeerLoad], Crowd | None], None],
        clock: Callable[[], float],
        stopwatch: Callable[[], float] = time.monotonic,
        period_s: float = VITALS_PERIOD_S,
        crowd: Crowd = ALONE,
    ) -> None:
        self._client = client
        self._own = own
        self._apply = apply
        self._clock = clock
        self._period_s = period_s
        self._health = StoreHealth("peers")
        self._stopwatch = stopwatch
        self._loads: Mapping[str, PeerLoad] = {}
        self._most = crowd.processes
        self._read_at_s = self._most_at_s = self._back_at_s = stopwatch()
        self._back_at_s -= HEARD_S

    async def run(self) -> None:
        """Read now and every period until cancelled, through outages of the store."""
        while True:
            await self.read()
            await asyncio.sleep(self._period_s)

    async def read(self) -> None:
        """Read once."""
        try:
            records = await self._records()
        except STORE_TROUBLE as error:
            self._health.failed(error)
            self._age()
            return
        self._health.succeeded()
        now_s = self._stopwatch()
        if now_s - self._read_at_s >= KV_FRESH_S:
            self._back_at_s = self._most_at_s = now_s
        self._read_at_s = now_s
        self._loads = loads_of(records, own=self._own, now=self._clock())
        crowd = self._whole(crowd_of(records, own=self._own, now=self._clock()), now_s)
        self._apply(self._loads, None if now_s - self._back_at_s < HEARD_S else crowd)

    def _whole(self, crowd: Crowd, now_s: float) -> Crowd:
        """The crowd with those who were there a moment ago."""
        if crowd.processes < self._most and now_s - self._most_at_s < TOLD_S:
            return replace(crowd, processes=self._most)
        self._most, self._most_at_s = crowd.processes, now_s
        return crowd

    def _age(self) -> None:
        """Give up what is too old by now, however long each call to the store took."""
        missed_s = self._stopwatch() - self._read_at_s
        if missed_s >= VITALS_LIFE_S:
            self._apply({}, None)
        elif missed_s >= KV_FRESH_S:
            stale = {name: replace(load, kv_used=None) for name, load in self._loads.items()}
            self._apply(stale, None)

    async def _records(self) -> list[Vitals]:
        seen = cast("list[bytes]", await self._client.zrevrange(SEEN, 0, _MOST_PROCESSES - 1))
        keys = [vitals_key(name.decode()) for name in seen]
        found = cast("list[bytes | None]", await self._client.mget(keys)) if keys else []
        return [record for one in found if one is not None and (record := _decoded(one))]


def _decoded(data: bytes) -> Vitals | None:
    """A record, or None if it is of a version that this process can't read."""
    try:
        return decode_vitals(data)
    except CodecError as error:
        log.debug("vitals unreadable", error=repr(error))
        return None

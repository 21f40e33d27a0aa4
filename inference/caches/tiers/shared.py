"""Answers and vectors in the cache store, which gateways share. Every one of them expires there.

What is kept is written beside the requests, in the order in which it came, within a bound: what is
beyond is not kept. A process that has an answer made says so there, and others may wait for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from secrets import token_hex
from typing import Any

import structlog
from redis.asyncio import Redis

from inference.caches.base import Asked, Entry, Parts
from inference.caches.link import CacheLink, StoreAway
from inference.caches.sealed import BadEntry, EntryBox
from inference.contract.kinds import CacheTier
from inference.contract.vitals import TierGauge, TopEntry
from inference.contract.wire import cache_flight_key, cached_answer_key
from inference.store import STORE_TROUBLE, connect_store

FLIGHT_S = 10.0
"""How long a process that says nothing more is believed to be at it."""
_RENEW_S = 3.0
_MAX_WAITING_BYTES = 16 * 1024 * 1024
_WRITES_A_TURN = 32
_GAUGE_EVERY_S = 5.0
_WRITE_S = 1.0

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('unlink', KEYS[1]) end"
_RENEW = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
"""
# Compared in the store: one that ran out may be another process's by now.

_Write = tuple[bytes, Entry] | bytes | None
"""What becomes of a name: an entry and its key, the end of the flight with this token, nothing."""

log = structlog.get_logger(__name__)


class SharedTier:
    """The cache store as a tier; without one it has nothing and keeps nothing."""

    kind = CacheTier.SHARED

    def __init__(self, parts: Parts) -> None:
        self.link: CacheLink | None = None
        if parts.store_url is not None:
            client = connect_store(parts.store_url, call_s=_WRITE_S)
            self.link = CacheLink(client, call_s=parts.call_s)
        self._box = EntryBox(parts.data_key)
        process = token_hex(8)
        self._clock = parts.clock
        self._tokens = (f"{process}-{number}".encode() for number in count())
        self._waiting: deque[tuple[str, _Write]] = deque()
        self._waiting_bytes = 0
        self._is_due = asyncio.Event()
        self._flights: dict[str, bytes] = {}
        self._dropped = 0
        self._gauge = TierGauge(tier=self.kind)

    @property
    def is_up(self) -> bool:
        """Whether it can be asked."""
        return self.link is not None and self.link.is_up

    async def find(self, asked: Asked, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        try:
            return await self._read(asked, keys)
        except StoreAway:
            return {}

    async def is_without(self, asked: Asked, key: bytes, is_alive: Callable[[Entry], bool]) -> bool:
        """Whether it says that it has no such entry, or a dead one; False if it can't be asked."""
        try:
            entry = (await self._read(asked, (key,))).get(key)
        except StoreAway:
            return False
        return entry is None or not is_alive(entry)

    def keep(self, asked: Asked, key: bytes, entry: Entry) -> None:
        if self.link is None:
            return
        size = len(entry.body)
        if not self.link.is_up or self._waiting_bytes + size > _MAX_WAITING_BYTES:
            self._dropped += 1
            return
        self._waiting_bytes += size
        self._put(cached_answer_key(asked.organisation_id, key.hex()), (key, entry))

    def forget(self, asked: Asked, key: bytes) -> None:
        """It is of no use to other processes either: what purges say they all hear."""
        if self.is_up:
            self._put(cached_answer_key(asked.organisation_id, key.hex()), None)

    def top_entries(self) -> Sequence[TopEntry]:
        return ()

    async def lead(self, asked: Asked) -> bool | Entry:
        """Whether this process is to have the answer made: False if another does, else the answer
        if that was quicker. With a store that can't be asked, each does for itself.
        """
        if self.link is None or not self.link.is_up:
            return True
        name = cache_flight_key(asked.organisation_id, asked.key.hex())
        answer = cached_answer_key(asked.organisation_id, asked.key.hex())
        # noted before: a claim that came too late for us may stand there all the same
        self._flights[name] = token = next(self._tokens)
        try:
            is_first, found = await self.link.call(
                lambda client: _claim(client, name, token, answer)
            )
        except StoreAway:
            return True
        entry = self._opened(asked.key, found)
        if not is_first:
            self._flights.pop(name, None)
        elif entry is not None:
            self.land(asked)
        return entry if entry is not None else bool(is_first)

    async def look(self, asked: Asked) -> bool | Entry:
        """The answer that another process has had made; else whether it is still at it."""
        if self.link is None or not self.link.is_up:
            return False
        name = cache_flight_key(asked.organisation_id, asked.key.hex())
        answer = cached_answer_key(asked.organisation_id, asked.key.hex())
        try:
            is_flying, found = await self.link.call(lambda client: _look(client, name, answer))
        except StoreAway:
            return False
        entry = self._opened(asked.key, found)
        return entry if entry is not None else bool(is_flying)

    def land(self, asked: Asked) -> None:
        """Say that this process is done with it, after all that was to be kept before."""
        name = cache_flight_key(asked.organisation_id, asked.key.hex())
        token = self._flights.pop(name, None)
        if token is not None:
            self._put(name, token)

    def gauge(self) -> TierGauge:
        if self.link is None:
            return TierGauge(tier=self.kind, is_down=True)
        told = self._gauge
        return TierGauge(
            tier=self.kind,
            entries=told.entries,
            bytes=told.bytes,
            bytes_max=told.bytes_max,
            evictions_total=told.evictions_total,
            errors_total=self.link.errors + self._dropped,
            is_down=not self.link.is_up,
        )

    async def run(self) -> None:
        if self.link is None:
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.link.run())
                tasks.create_task(self._write())
                tasks.create_task(self._renew())
                tasks.create_task(self._measure())
        finally:
            await self.link.client.aclose()

    async def _read(self, asked: Asked, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        """Those of these that are there, or raise StoreAway."""
        if self.link is None:
            raise StoreAway
        names = [cached_answer_key(asked.organisation_id, key.hex()) for key in keys]
        found = await self.link.call(lambda client: _get_all(client, names))
        opened = zip(keys, map(self._opened, keys, found), strict=True)
        return {key: entry for key, entry in opened if entry is not None}

    def _put(self, name: str, content: _Write) -> None:
        self._waiting.append((name, content))
        self._is_due.set()

    async def _write(self) -> None:
        """Write what waits, for as long as the process lives; what can't be written is dropped."""
        assert self.link is not None
        while True:
            await self._is_due.wait()
            batch = [
                self._waiting.popleft() for _ in range(min(len(self._waiting), _WRITES_A_TURN))
            ]
            if not self._waiting:
                self._is_due.clear()
            entries = [content[1] for _, content in batch if isinstance(content, tuple)]
            self._waiting_bytes -= sum(len(entry.body) for entry in entries)
            if not self.link.is_up:
                self._dropped += len(batch)
                continue
            try:
                async with asyncio.timeout(_WRITE_S):
                    await self._write_all(batch)
            except STORE_TROUBLE:
                self._dropped += len(batch)

    async def _write_all(self, batch: Sequence[tuple[str, _Write]]) -> None:
        assert self.link is not None
        async with self.link.client.pipeline(transaction=False) as pipe:
            for name, content in batch:
                if content is None:
                    pipe.unlink(name)
                    continue
                if isinstance(content, bytes):
                    pipe.eval(_RELEASE, 1, name, content)
                    continue
                key, entry = content
                left_ms = int((entry.stale_until - self._clock()) * 1000)
                if left_ms > 0:
                    pipe.set(name, self._box.close(key, entry), px=left_ms)
            await pipe.execute()

    async def _renew(self) -> None:
        """Say again what this process has made, so that others go on waiting."""
        assert self.link is not None
        while True:
            await asyncio.sleep(_RENEW_S)
            if not self._flights or not self.link.is_up:
                continue
            try:
                async with self.link.client.pipeline(transaction=False) as pipe:
                    for name, token in self._flights.items():
                        pipe.eval(_RENEW, 1, name, token, int(FLIGHT_S * 1000))
                    await pipe.execute()
            except STORE_TROUBLE:
                continue  # whoever waits has a bound of its own

    async def _measure(self) -> None:
        assert self.link is not None
        while True:
            if self.link.is_up:
                try:
                    self._gauge = await _measured(self.link.client)
                except STORE_TROUBLE:
                    self._gauge = TierGauge(tier=self.kind)
            await asyncio.sleep(_GAUGE_EVERY_S)

    def _opened(self, key: bytes, sealed: bytes | None) -> Entry | None:
        if sealed is None:
            return None
        try:
            return self._box.open(key, sealed)
        except BadEntry as error:
            self._dropped += 1
            log.warning("a cached answer cannot be read", why=str(error))
            return None


async def _get_all(client: Redis, names: Sequence[str]) -> Sequence[bytes | None]:
    """Each by itself in one go: in a cluster they stand in different places."""
    if len(names) == 1:
        one: Any = await client.get(names[0])
        return [one]
    async with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.get(name)
        found: list[bytes | None] = await pipe.execute()
    return found


async def _claim(client: Redis, name: str, token: bytes, answer: str) -> tuple[Any, Any]:
    async with client.pipeline(transaction=False) as pipe:
        pipe.set(name, token, nx=True, px=int(FLIGHT_S * 1000))
        pipe.get(answer)
        is_first, found = await pipe.execute()
    return is_first, found


async def _look(client: Redis, name: str, answer: str) -> tuple[Any, Any]:
    """In this order: an answer is written before its flight ends."""
    async with client.pipeline(transaction=False) as pipe:
        pipe.exists(name)
        pipe.get(answer)
        is_flying, found = await pipe.execute()
    return is_flying, found


async def _measured(client: Redis) -> TierGauge:
    async with client.pipeline(transaction=False) as pipe:
        pipe.dbsize()
        pipe.info("memory")
        pipe.info("stats")
        entries, memory, stats = await pipe.execute()
    return TierGauge(
        tier=CacheTier.SHARED,
        entries=entries,
        bytes=memory.get("used_memory"),
        bytes_max=memory.get("maxmemory") or None,
        evictions_total=stats.get("evicted_keys"),
    )


def build(parts: Parts) -> SharedTier:
    """The shared tier."""
    return SharedTier(parts)

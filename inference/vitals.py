"""What a process says of itself once a second: one whole record that may be lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from redis.asyncio import Redis

from inference.contract.codec import encode_vitals
from inference.contract.vitals import VITALS_LIFE_S, VITALS_PERIOD_S, Vitals
from inference.contract.wire import SEEN, vitals_key
from inference.store import STORE_TROUBLE, StoreHealth

SEEN_S = 7200.0
"""Whoever has written nothing for so long is forgotten; the control plane misses nobody longer."""

# By the store's clock, so that a writer whose own is wrong makes nobody else be forgotten.
# KEYS: the record, who was seen. ARGV: record, its life in ms, process, SEEN_S.
_WRITE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[4])
return 1
"""


class VitalsWriter:
    """Writes what `record` returns to the store, with a life of a few seconds, and that it did.

    `record` is called on the loop and may not fail. Whatever it says, `process` is who wrote it.
    """

    def __init__(
        self,
        client: Redis,
        process: str,
        record: Callable[[], Vitals],
        *,
        period_s: float = VITALS_PERIOD_S,
    ) -> None:
        self._client = client
        self._process = process
        self._script = client.register_script(_WRITE)
        self._record = record
        self._period_s = period_s
        self._is_due = asyncio.Event()
        self._health = StoreHealth("vitals")

    def rename(self, process: str) -> None:
        """Write as another process from now on. The name that was in use is left to whoever
        follows; if nobody does, it is missed."""
        self._process = process
        self.write_soon()

    def write_soon(self) -> None:
        """Have a record written at once instead of at the next full period."""
        self._is_due.set()

    async def run(self) -> None:
        """Write now and every period until cancelled, through outages of the store."""
        while True:
            self._is_due.clear()
            await self.write()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._period_s):
                    await self._is_due.wait()

    async def write(self) -> None:
        """Write one record; a store that would not have it is logged once."""
        record = replace(self._record(), process=self._process)
        try:
            await self._script(
                keys=[vitals_key(self._process), SEEN],
                args=[encode_vitals(record), int(VITALS_LIFE_S * 1000), self._process, SEEN_S],
            )
        except STORE_TROUBLE as error:
            self._health.failed(error)
        else:
            self._health.succeeded()

    async def sign_off(self) -> None:
        """Delete the record at a clean stop, so that nobody waits for it to expire or misses us."""
        with suppress(*STORE_TROUBLE):
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.delete(vitals_key(self._process))
                pipe.zrem(SEEN, self._process)
                await pipe.execute()

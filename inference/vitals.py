"""What a process says of itself once a second: one whole record that may be lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from redis.asyncio import Redis

from inference.contract.codec import encode_vitals
from inference.contract.vitals import VITALS_LIFE_S, VITALS_PERIOD_S, Vitals
from inference.contract.wire import SEEN, vitals_key
from inference.store import STORE_TROUBLE, StoreHealth

SEEN_S = 3600.0
"""Whoever has written nothing for so long is forgotten; nobody misses it for longer."""


class VitalsWriter:
    """Writes what `record` returns to the store, with a life of a few seconds, and that it did.

    `record` is called on the loop, may not fail, and names `process` in every record.
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
        self._key = vitals_key(process)
        self._record = record
        self._period_s = period_s
        self._is_due = asyncio.Event()
        self._health = StoreHealth("vitals")

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
        record = self._record()
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.set(self._key, encode_vitals(record), px=int(VITALS_LIFE_S * 1000))
                pipe.zadd(SEEN, {self._process: record.written_at})
                pipe.zremrangebyscore(SEEN, "-inf", record.written_at - SEEN_S)
                await pipe.execute()
        except STORE_TROUBLE as error:
            self._health.failed(error)
        else:
            self._health.succeeded()

    async def sign_off(self) -> None:
        """Delete the record at a clean stop, so that nobody waits for it to expire or misses us."""
        with suppress(*STORE_TROUBLE):
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.delete(self._key)
                pipe.zrem(SEEN, self._process)
                await pipe.execute()

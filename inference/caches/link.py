"""The cache store, for callers who can do without: it answers in time, or it isn't asked.

A store that is gone is asked no more until it has answered us beside the requests, so that its
being down, stopped or slow costs no request anything, but for the first few that find out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis.asyncio import Redis

from inference.store import STORE_TROUBLE

CALL_S = 0.05
"""What one call may take. A store on the same machine answers in a hundredth of it."""
_PROBE_EVERY_S = 0.5
_PROBE_S = 1.0
_SLOW_IN_A_ROW = 2
"""After so many that came too late it counts as gone; one may be our own fault."""

T = TypeVar("T")

log = structlog.get_logger(__name__)


class StoreAway(Exception):
    """The cache store can't be asked, or didn't answer in time."""


class CacheLink:
    """Calls to the store that end in `call_s`; `errors` counts those that failed."""

    def __init__(self, client: Redis, *, call_s: float = CALL_S) -> None:
        self.client = client
        self.errors = 0
        self._call_s = call_s
        self._late = 0
        self.is_up = True
        """Whether it is asked."""

    async def call(self, make: Callable[[Redis], Awaitable[T]]) -> T:
        """What the store answers, or raise StoreAway."""
        if not self.is_up:
            raise StoreAway
        try:
            async with asyncio.timeout(self._call_s):
                answer = await make(self.client)
        except STORE_TROUBLE as error:
            self.errors += 1
            self._late += 1
            if self._late >= _SLOW_IN_A_ROW or not isinstance(error, TimeoutError):
                self._close(error)
            raise StoreAway from error
        self._late = 0
        return answer

    async def run(self) -> None:
        """Look now and then whether a store that was gone is back, until cancelled."""
        while True:
            await asyncio.sleep(_PROBE_EVERY_S)
            if not self.is_up and await self._answers():
                self._late, self.is_up = 0, True
                log.info("cache store available again")

    def _close(self, error: Exception) -> None:
        if self.is_up:
            self.is_up = False
            log.warning("cache store unavailable", error=f"{type(error).__name__}: {error}")

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE_S):
                await self.client.ping()
        except STORE_TROUBLE:
            return False
        return True

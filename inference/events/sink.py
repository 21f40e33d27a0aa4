"""The background task that hands this process's own journal to the stream."""

import asyncio
from contextlib import suppress

import structlog
from redis.asyncio import Redis

from inference.events.feed import JournalFault, JournalFeed, StoreUnseeded
from inference.events.stream import STREAM_ENTRIES, UsageStream
from inference.journal import Journal
from inference.store import STORE_TROUBLE, StoreHealth

GATHER_S = 0.1
"""Ends are fed in batches this far apart: a batch costs the loop little more than one end."""

IDLE_S = 1.0
"""How often marks are looked at, and a lost store tried, when nothing happens."""

log = structlog.get_logger(__name__)


class Sink:
    """Feeds one live journal for as long as the process runs, through outages of the store."""

    def __init__(
        self,
        journal: Journal,
        client: Redis,
        *,
        max_entries: int = STREAM_ENTRIES,
        idle_s: float = IDLE_S,
    ) -> None:
        self._journal = journal
        self._feed = JournalFeed(journal, UsageStream(client, max_entries=max_entries))
        self._health = StoreHealth("usage sink")
        self._idle_s = idle_s

    async def run(self) -> None:
        """Feed until cancelled."""
        try:
            while True:
                await (self._wait_for_more() if await self.step() else asyncio.sleep(self._idle_s))
        finally:
            self._feed.close()

    async def step(self) -> bool:
        """Feed what there is now; False if store or disk fail."""
        self._journal.grown.clear()
        try:
            await self._feed.step()
        except JournalFault as fault:
            log.error("journal cannot be read", journal=self._journal.journal_id, error=str(fault))
            return False
        except (*STORE_TROUBLE, StoreUnseeded) as error:
            self._health.failed(error)
            return False
        self._health.succeeded()
        return True

    async def _wait_for_more(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._idle_s):
                await self._journal.grown.wait()
        await asyncio.sleep(GATHER_S)

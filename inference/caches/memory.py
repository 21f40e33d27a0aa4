"""A tier in a process's memory: answers, or vectors."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from inference.caches.base import Asked, Entry
from inference.caches.gdsf import Gdsf
from inference.contract.kinds import CacheTier
from inference.contract.vitals import TierGauge, TopEntry

SWEEP_S = 10.0
_DROPS_A_TURN = 200


class MemoryTier:
    """A tier of one process; what is past its time is swept out now and then."""

    def __init__(self, kind: CacheTier, most_bytes: int, *, clock: Callable[[], float]) -> None:
        self.kind = kind
        self._kept = Gdsf(most_bytes)
        self._clock = clock

    async def find(self, asked: Asked, keys: Sequence[bytes]) -> Mapping[bytes, Entry]:
        get = self._kept.get
        return {key: entry for key in keys if (entry := get(key)) is not None}

    def keep(self, asked: Asked, key: bytes, entry: Entry) -> None:
        self._kept.put(key, entry, share_percent=asked.policy.memory_percent)

    def forget(self, asked: Asked, key: bytes) -> None:
        self._kept.drop(key)

    def top_entries(self) -> Sequence[TopEntry]:
        return self._kept.top_entries(self.kind)

    def gauge(self) -> TierGauge:
        kept = self._kept
        return TierGauge(
            tier=self.kind,
            entries=len(kept),
            bytes=kept.bytes,
            bytes_max=kept.most_bytes,
            evictions_total=kept.evictions,
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.sweep()

    async def sweep(self) -> None:
        """Let go of what nobody may be served any more, a few at a time."""
        for number, key in enumerate(self._kept.stale_keys(self._clock()), start=1):
            self._kept.drop(key)
            if number % _DROPS_A_TURN == 0:
                await asyncio.sleep(0)

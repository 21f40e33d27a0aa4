"""Answers to questions that ask the same in other words, found by the helper of this host.

It has no entries: the helper names the key of one, which stands in another tier.
"""

import asyncio

from inference.caches.base import Parts
from inference.contract.kinds import CacheTier
from inference.contract.vitals import TierGauge
from inference.helper.client import HelperClient
from inference.helper.messages import Nearest, SemanticEntry, SemanticQuery


class SemanticTier:
    """The helper as a tier; without one it finds nothing."""

    kind = CacheTier.SEMANTIC

    def __init__(self, client: HelperClient | None) -> None:
        self._client = client

    @property
    def client(self) -> HelperClient | None:
        """The line to the helper, for its counts; None if there is to be none."""
        return self._client

    @property
    def is_up(self) -> bool:
        """Whether a question would be asked now."""
        return self._client is not None and self._client.is_up

    async def nearest(
        self, partition: bytes, text: str, *, similarity_min: float
    ) -> Nearest | None:
        """The nearest question of the partition; without a key it may not be used."""
        if self._client is None:
            return None
        return await self._client.nearest(SemanticQuery(partition, text, similarity_min))

    def remember(self, partition: bytes, text: str, *, key: bytes, expires_at: float) -> None:
        """Have a question found from now on."""
        if self._client is not None:
            self._client.remember(SemanticEntry(partition, text, key, expires_at))

    def forget(self, key: bytes) -> None:
        """Have a question found no more."""
        if self._client is not None:
            self._client.forget(key)

    async def agree(self, one: str, other: str) -> bool | None:
        """Whether two answers say the same; None if nobody can tell."""
        return None if self._client is None else await self._client.agree(one, other)

    def gauge(self) -> TierGauge:
        if self._client is None:
            return TierGauge(tier=self.kind, is_down=True)
        counts = self._client.counts
        errors = counts.late + counts.down + counts.busy + counts.dropped + counts.garbled
        held = self._client.gauge
        return TierGauge(
            tier=self.kind,
            entries=None if held is None else held.entries,
            bytes=None if held is None else held.bytes,
            bytes_max=None if held is None else held.bytes_max,
            evictions_total=None if held is None else held.evictions_total,
            errors_total=errors,
            is_down=not self._client.is_up,
        )

    async def run(self) -> None:
        if self._client is None:
            await asyncio.Event().wait()
        else:
            await self._client.run()


def build(parts: Parts) -> SemanticTier:
    """The semantic tier."""
    socket = parts.helper_socket
    if socket is None:
        return SemanticTier(None)
    return SemanticTier(HelperClient(socket, deadline_s=parts.helper_s))

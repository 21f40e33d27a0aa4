"""Answers in this process's memory."""

from inference.caches.base import Parts
from inference.caches.memory import MemoryTier
from inference.contract.kinds import CacheTier


def build(parts: Parts) -> MemoryTier:
    """The local tier."""
    return MemoryTier(CacheTier.LOCAL, parts.local_bytes, clock=parts.clock)

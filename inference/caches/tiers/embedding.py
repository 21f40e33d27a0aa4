"""Vectors in this process's memory, one an input, apart from answers: either may not push out the
other. The store has them too, where the policy names the shared tier.
"""

from inference.caches.base import Parts
from inference.caches.memory import MemoryTier
from inference.contract.kinds import CacheTier


def build(parts: Parts) -> MemoryTier:
    """The embedding tier."""
    return MemoryTier(CacheTier.EMBEDDING, parts.embedding_bytes, clock=parts.clock)

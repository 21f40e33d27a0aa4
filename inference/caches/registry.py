"""Which tier is of which kind."""

from collections.abc import Callable, Mapping

from inference.caches.base import Parts, Tier
from inference.caches.tiers import embedding, local, semantic, shared
from inference.contract.kinds import CacheTier

REGISTRY: Mapping[CacheTier, Callable[[Parts], Tier]] = {
    CacheTier.LOCAL: local.build,
    CacheTier.SHARED: shared.build,
    CacheTier.SEMANTIC: semantic.build,
    CacheTier.EMBEDDING: embedding.build,
}

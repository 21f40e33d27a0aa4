"""What may be kept of a route's answers, and what of that must not be served any more."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass
from inference.contract.matching import MatchRecord


@dataclass(frozen=True, slots=True)
class CachePolicyRecord:
    """What is kept of the answers of the routes that name it, for whom and for how long.

    `ttl_s` is by the request's task class, in seconds: 0 is never kept, one that is absent has
    `params.CACHE_TTL_S`. Answers that were drawn by chance (a temperature that isn't 0, or more
    than one answer) are kept if `stores_sampled`, those with tool calls if `stores_tool_calls`.
    For `stale_s` past its time an answer is served once more while it is renewed.

    `similarity_min` (a cosine) is the least at which a semantic hit is thought of, `check_percent`
    the share of them that are answered anew and compared. Requests that fit one of `bypass` are
    neither answered from it nor kept. Local memory is shared among policies by `memory_percent`,
    the most of it that each may fill. Above 0, `edge_s` is how long a cache in front may keep what
    is published. A policy that isn't `is_enabled` does nothing.
    """

    id: str
    organisation_id: str
    name: str
    tiers: tuple[CacheTier, ...] = (CacheTier.LOCAL, CacheTier.SHARED)
    scope: CacheScope = CacheScope.PROJECT
    ttl_s: Mapping[TaskClass, int] = field(default_factory=dict)
    stores_sampled: bool = False
    stores_tool_calls: bool = False
    serves_out_of_budget: bool = True
    similarity_min: float = 0.92
    check_percent: float = 2.0
    stale_s: int = 0
    bypass: tuple[MatchRecord, ...] = ()
    max_entry_bytes: int = 1_048_576
    memory_percent: int = 100
    edge_s: int = 0
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class PurgeRecord:
    """What was asked before this purge is never served from a cache again.

    `value` names a policy or an entry by its id, a namespace, the beginning of namespaces, or a tag
    as callers write it. `epoch` counts up over all purges of an installation. A record may go once
    all that was kept before it has expired.
    """

    id: str
    organisation_id: str
    kind: PurgeKind
    value: str
    epoch: int

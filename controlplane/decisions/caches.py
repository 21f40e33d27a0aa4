"""Cache policies as people write and read them: conditions, times, and what each word means."""

from collections.abc import Mapping, Sequence

from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass
from inference.contract.params import CACHE_TTL_S, Bound

HOUR_S, DAY_S = 3_600, 86_400

DEFAULT_TTL_S: Mapping[str, int] = {task.value: ttl_s for task, ttl_s in CACHE_TTL_S.items()}
"""Seconds by class of task; 0 is never kept."""

CALIBRATION_BOUNDS: Mapping[str, Bound] = {"false_hits_max_percent": Bound(0.1, 50)}

SCOPE_WORDS: Mapping[str, str] = {
    CacheScope.KEY.value: "each key by itself",
    CacheScope.PROJECT.value: "each project by itself",
    CacheScope.TEAM.value: "each team by itself",
    CacheScope.ORGANISATION.value: "the whole organisation",
    CacheScope.SHARED.value: "the whole organisation, all routes of the policy alike",
}
TIER_WORDS: Mapping[str, str] = {
    CacheTier.LOCAL.value: "in each gateway",
    CacheTier.SHARED.value: "in the cache store",
    CacheTier.SEMANTIC.value: "by meaning",
    CacheTier.EMBEDDING.value: "embeddings, input by input",
}
PURGE_WORDS: Mapping[str, str] = {
    PurgeKind.POLICY.value: "everything under a policy",
    PurgeKind.NAMESPACE.value: "one namespace",
    PurgeKind.PREFIX.value: "namespaces that begin with",
    PurgeKind.TAG.value: "what carries a tag",
    PurgeKind.ENTRY.value: "one entry",
}

SHARED_WARNING = (
    "What was answered on one of its routes is served on every other that asks the very same of "
    "the same model and engine. Whether somebody of the organisation has asked before can be told "
    "by how fast the answer comes."
)


def seconds_words(seconds: int) -> str:
    """`24 h`, `5 min`, `90 s`; 0 is never."""
    if seconds == 0:
        return "never"
    for size, unit in ((DAY_S, "d"), (HOUR_S, "h"), (60, "min")):
        if seconds % size == 0 and seconds >= size and (size != DAY_S or seconds > DAY_S):
            return f"{seconds // size:,} {unit}"
    return f"{seconds:,} s"


def ttl_words(ttl_s: Mapping[str, int]) -> str:
    """`code 1 h, factual 24 h, creative never, else 5 min`; classes that say nothing are `else`."""
    default = TaskClass.DEFAULT.value
    own = [
        f"{one.value} {seconds_words(ttl_s[one.value])}"
        for one in TaskClass
        if one.value != default and one.value in ttl_s
    ]
    rest = seconds_words(ttl_s.get(default, 0))
    return ", ".join((*own, f"else {rest}"))


def tiers_words(tiers: Sequence[str]) -> str:
    """Where answers are kept; none is a policy that only watches."""
    return ", ".join(TIER_WORDS[one] for one in tiers) or "nowhere: it only counts what repeats"


def purge_words(kind: str, value: str, policy_name: str | None = None) -> str:
    """What a purge takes out, in words."""
    if kind == PurgeKind.POLICY:
        return f"everything under policy {policy_name or value}"
    if kind == PurgeKind.NAMESPACE:
        return f"everything in namespace {value}"
    if kind == PurgeKind.PREFIX:
        return f"everything in namespaces that begin with {value}"
    if kind == PurgeKind.TAG:
        return f"everything tagged {value}"
    return f"the entry {value}"

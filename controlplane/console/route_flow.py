"""A route as a picture people read: its rules from top to bottom, each with where it sends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.console import flows
from controlplane.console.nouns import POOLS
from controlplane.console.targets import (
    Target,
    has_own_times,
    place_of,
    shares_in_tiers,
    shares_of,
    tier_words,
    times_told,
    told,
)
from controlplane.models import Pool

_SLOTS = 7


@dataclass(frozen=True, slots=True)
class Aim:
    """One target as drawn. `pool` None is one that is gone; `share` is of what its tier gets."""

    pool: Pool | None
    pool_id: str
    weight: int
    tier: int
    share: str
    slot: int
    times: str

    @property
    def url(self) -> str:
        return POOLS.detail_url(self.pool_id)

    @property
    def name(self) -> str:
        return self.pool_id if self.pool is None else self.pool.name

    @property
    def model(self) -> str:
        return "" if self.pool is None else self.pool.model.name

    @property
    def tier_words(self) -> str:
        return tier_words(self.tier)


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through a route: who takes it, the first choice, then the fallbacks tier by tier.

    `rule_id` None is what no rule takes; `took` says what has measurably gone this way, "" unknown.
    """

    title: str
    conditions: Sequence[str]
    is_enabled: bool
    flow: flows.Flow
    first: Sequence[Aim]
    fallbacks: Sequence[Sequence[Aim]]
    rule_id: str | None = None
    took: str = ""

    @property
    def aims(self) -> Sequence[Aim]:
        return [*self.first, *(aim for tier in self.fallbacks for aim in tier)]


def slots_of(lists: Sequence[Sequence[Target]]) -> dict[str, int]:
    """A colour a pool, the same in every picture of the route."""
    pools = dict.fromkeys(one["pool"] for targets in lists for one in targets)
    return {pool: min(place + 1, _SLOTS) for place, pool in enumerate(pools)}


def branch_of(
    title: str,
    conditions: Sequence[str],
    targets: Sequence[Target],
    pools: Mapping[str, Pool],
    slots: Mapping[str, int],
    *,
    is_enabled: bool = True,
    rule_id: str | None = None,
) -> Branch:
    """The picture of one list of targets."""
    shares = shares_in_tiers(targets)
    tiers: dict[int, list[Aim]] = {}
    for one in targets:
        pool, tier = place_of(one)
        tiers.setdefault(tier, []).append(_aim(one, pools.get(pool), shares[pool, tier], slots))
    first, *rest = [tiers[tier] for tier in sorted(tiers)] or [[]]
    flow = flows.draw(shares_of(targets), slots)
    return Branch(title, conditions, is_enabled, flow, first, rest, rule_id)


def _aim(target: Target, pool: Pool | None, share: float, slots: Mapping[str, int]) -> Aim:
    times: dict[str, Any] = dict(target)
    return Aim(
        pool,
        target["pool"],
        target["weight"],
        place_of(target)[1],
        told(share),
        slots[target["pool"]],
        times_told(times) if has_own_times(times) else "",
    )

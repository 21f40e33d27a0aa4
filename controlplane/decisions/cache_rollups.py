"""What the ends of requests add to the roll-ups of caches.

A hit is no charge: what it saved is summed here and nowhere else. Savings whose price nobody knows
are counted in `unknown_saved` and never added up as zero. Hours are of the organisation's clock.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from controlplane.decisions.ledger import stored_text, time_of
from controlplane.decisions.rollups import NO_ZONES, Zones, hour_of
from inference.contract.events import CacheUse, End
from inference.contract.kinds import CacheOutcome, CacheTier

SERVED = frozenset({CacheOutcome.HIT, CacheOutcome.STALE, CacheOutcome.JOINED})
"""Outcomes that were answered without asking a worker anew."""

STEPS = 100
"""Similarities are counted in steps of 0.01."""


class Verdict(StrEnum):
    """What became of the nearest that the semantic tier found."""

    SERVED = "served"
    REFUSED = "refused"
    AGREED = "agreed"
    DIFFERED = "differed"
    UNSURE = "unsure"


class CacheKey(NamedTuple):
    """Which row of the roll-up by hour; an empty id or tier stands for none."""

    organisation_id: str
    hour: datetime
    project_id: str
    route_id: str
    policy_id: str
    outcome: str
    tier: str


@dataclass(slots=True)
class CacheSums:
    """What such a row adds up; tokens, money and time are what was saved."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    saved_nanousd: int = 0
    unknown_saved: int = 0
    saved_ms: float = 0.0
    inputs: int = 0
    inputs_hit: int = 0


class SimilarityKey(NamedTuple):
    """Which row of the histogram; `step` is the similarity in hundredths, rounded down."""

    organisation_id: str
    hour: datetime
    route_id: str
    step: int
    verdict: str


@dataclass(frozen=True, slots=True)
class FoundFalse:
    """A hit by meaning that a check found to say something else than the fresh answer."""

    organisation_id: str
    event_id: str
    at: datetime
    project_id: str
    route_id: str
    policy_id: str
    entry_id: str
    similarity: float | None


@dataclass(frozen=True, slots=True)
class CacheRollUps:
    """Increments in the order in which every writer must apply them."""

    hours: tuple[tuple[CacheKey, CacheSums], ...] = ()
    similarities: tuple[tuple[SimilarityKey, int], ...] = ()
    found_false: tuple[FoundFalse, ...] = ()


NOTHING = CacheRollUps()


def roll_up_caches(ends: Iterable[End], zones: Zones = NO_ZONES) -> CacheRollUps:
    """Sum what these ends add; those that no policy bore on add nothing."""
    hours: dict[CacheKey, CacheSums] = defaultdict(CacheSums)
    similarities: dict[SimilarityKey, int] = defaultdict(int)
    found_false: list[FoundFalse] = []
    for end in ends:
        use = end.cache
        if use is None:
            continue
        organisation_id = stored_text(end.origin.organisation_id)
        hour = hour_of(time_of(end.at_ms), zones.get(organisation_id, UTC))
        _accumulate(hours[_key_of(end, use, organisation_id, hour)], use)
        verdict = verdict_of(use)
        if verdict is not None:
            route_id = stored_text(end.origin.route_id or "")
            step = step_of(use.similarity or 0.0)
            similarities[SimilarityKey(organisation_id, hour, route_id, step, verdict.value)] += 1
        if verdict is Verdict.DIFFERED:
            found_false.append(_false_hit(end, use))
    if not hours:
        return NOTHING
    ordered = sorted(found_false, key=lambda one: one.event_id)
    return CacheRollUps(
        tuple(sorted(hours.items(), key=lambda one: one[0])),
        tuple(sorted(similarities.items())),
        tuple(ordered),
    )


def verdict_of(use: CacheUse) -> Verdict | None:
    """What became of the nearest; None where the semantic tier found none or wasn't asked."""
    if use.similarity is None:
        return None
    if use.outcome is CacheOutcome.CHECKED:
        told = {True: Verdict.AGREED, False: Verdict.DIFFERED, None: Verdict.UNSURE}
        return told[use.agreed]
    if use.refused_by is not None:
        return Verdict.REFUSED
    is_served = use.outcome in SERVED and use.tier is CacheTier.SEMANTIC
    return Verdict.SERVED if is_served else None


def step_of(similarity: float) -> int:
    """A similarity in hundredths, rounded down; half of a millionth is for sums of floats."""
    return max(0, min(STEPS, int(similarity * STEPS + 5e-7)))


def _key_of(end: End, use: CacheUse, organisation_id: str, hour: datetime) -> CacheKey:
    return CacheKey(
        organisation_id,
        hour,
        stored_text(end.origin.project_id),
        stored_text(end.origin.route_id or ""),
        stored_text(use.policy_id),
        use.outcome.value,
        "" if use.tier is None else use.tier.value,
    )


def _accumulate(sums: CacheSums, use: CacheUse) -> None:
    sums.requests += 1
    sums.inputs += use.inputs or 0
    sums.inputs_hit += use.inputs_hit or 0
    has_saved = use.outcome in SERVED or bool(use.inputs_hit)
    if not has_saved:
        return
    sums.prompt_tokens += use.saved_prompt_tokens or 0
    sums.completion_tokens += use.saved_completion_tokens or 0
    sums.saved_ms += use.saved_ms or 0.0
    if use.saved_nanousd is None:
        sums.unknown_saved += 1
    else:
        sums.saved_nanousd += use.saved_nanousd


def _false_hit(end: End, use: CacheUse) -> FoundFalse:
    return FoundFalse(
        organisation_id=stored_text(end.origin.organisation_id),
        event_id=stored_text(end.event_id),
        at=time_of(end.at_ms),
        project_id=stored_text(end.origin.project_id),
        route_id=stored_text(end.origin.route_id or ""),
        policy_id=stored_text(use.policy_id),
        entry_id=stored_text(use.entry_id or ""),
        similarity=use.similarity,
    )

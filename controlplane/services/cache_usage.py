"""Writes of the caches' roll-ups: by the recorder, and by people who tell of a wrong answer."""

from dataclasses import asdict
from datetime import datetime, timedelta

from controlplane.decisions.cache_rollups import (
    CacheKey,
    CacheRollUps,
    CacheSums,
    SimilarityKey,
)
from controlplane.models import CacheHour, CacheSimilarity, FalseHit
from controlplane.services.upserts import add_up

CHECK, PERSON = "check", "person"
"""Who found a hit to be false."""

SIMILARITIES_KEPT = timedelta(days=90)
FALSE_HITS_KEPT = timedelta(days=90)

_SUMS = tuple(CacheSums.__dataclass_fields__)


def add_cache_use(increments: CacheRollUps) -> None:
    """Add to the roll-ups of caches, each by key; inside the recorder's transaction."""
    if not increments.hours:
        return
    hours = [key._asdict() | asdict(sums) for key, sums in increments.hours]
    add_up(CacheHour, CacheKey._fields, hours, sums=_SUMS)
    steps = [key._asdict() | {"requests": count} for key, count in increments.similarities]
    add_up(CacheSimilarity, SimilarityKey._fields, steps, sums=("requests",))
    found = [FalseHit(source=CHECK, **asdict(one)) for one in increments.found_false]
    FalseHit.objects.bulk_create(found, ignore_conflicts=True)


def forget_similarities(now: datetime) -> int:
    """Remove what is older than anybody asks for; returns how many rows."""
    return CacheSimilarity.objects.filter(hour__lt=now - SIMILARITIES_KEPT).delete()[0]


def forget_false_hits(now: datetime) -> int:
    """Remove what is older than it is kept; returns how many."""
    return FalseHit.objects.filter(at__lt=now - FALSE_HITS_KEPT).delete()[0]

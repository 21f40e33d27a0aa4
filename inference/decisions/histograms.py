"""Histograms that merge exactly: counts by bucket, buckets growing by a twentieth.

A percentile read from one is within 2.5 % of the true one, however many processes counted.
Percentiles are never averaged; histograms are added and then read.
"""

from collections.abc import Iterable, Mapping
from math import ceil, log

GROWTH = 1.05
_LOG_GROWTH = log(GROWTH)

ENOUGH_SAMPLES: Mapping[float, int] = {0.5: 3, 0.95: 20, 0.99: 100}
"""Below these a percentile is a guess: the p95 of 5 values is their largest."""

Histogram = Mapping[int, int]


def bucket_of(value: float) -> int:
    """The bucket of a positive value; anything smaller than a millionth counts as that."""
    return ceil(log(max(value, 1e-6)) / _LOG_GROWTH)


def value_of(bucket: int) -> float:
    """The value that stands for a bucket: the middle of its bounds, by ratio of errors."""
    return 2.0 * GROWTH**bucket / (1.0 + GROWTH)


def merged(histograms: Iterable[Histogram]) -> dict[int, int]:
    """The histogram of all values that were counted into any of them."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def percentile(histogram: Histogram, share: float) -> float | None:
    """The smallest value that this share of all values doesn't exceed; None if they are too few."""
    return percentiles(histogram, (share,))[share]


def percentiles(histogram: Histogram, shares: Iterable[float]) -> dict[float, float | None]:
    """Several percentiles by share, read in one pass; None where the values are too few."""
    total = sum(histogram.values())
    found: dict[float, float | None] = {}
    buckets, counted, bucket = iter(sorted(histogram)), 0, 0
    for share in sorted(shares):
        if total < max(ENOUGH_SAMPLES.get(share, 1), 1):
            found[share] = None
            continue
        wanted = max(1, ceil(share * total))
        while counted < wanted:
            bucket = next(buckets)
            counted += histogram[bucket]
        found[share] = value_of(bucket)
    return found

"""Quantiles of a variant from its histogram, with limits that follow from the ranks.

A quantile's error is known on the scale of ranks, where it needs no density (Woodruff 1952): the
share of values below the true p95 is 95 % give or take its own standard error. The limits are the
values at those ranks, so they are uneven where the values are. With a sequence's multiplier they
hold at any look.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf, sqrt

from controlplane.decisions.experiments.sums import UnitSums, estimate
from inference.decisions.histograms import GROWTH


@dataclass(frozen=True, slots=True)
class Counted:
    """Values of requests by bucket (`inference.decisions.histograms`).

    `design_effect` is by how much the requests of one unit being alike makes the values fewer than
    they look; 1 where the unit is the request.
    """

    buckets: Mapping[int, int]
    design_effect: float = 1.0


@dataclass(frozen=True)
class Quantile:
    """One quantile of one variant. `n` counts values; None where there is none."""

    counted: Counted
    fraction: float

    @cached_property
    def _ranks(self) -> tuple[list[int], list[int]]:
        counts = self.counted.buckets
        buckets = sorted(filter(counts.get, counts))
        return buckets, list(accumulate(map(counts.__getitem__, buckets)))

    @property
    def n(self) -> int:
        ranks = self._ranks[1]
        return ranks[-1] if ranks else 0

    @cached_property
    def value(self) -> float | None:
        return self._at(self.fraction) if self.n else None

    @property
    def standard_error(self) -> None:
        """There is none: limits are not even, and not a multiple of one thing."""
        return

    @property
    def reduction(self) -> None:
        """None: the past is not taken into account."""
        return

    def limits(self, multiplier: float) -> tuple[float, float] | None:
        """The values at ranks so many standard errors below and above; 0 or infinite at the ends.

        None where there are too few values for any limit.
        """
        if self.n < 2:
            return None
        apart = multiplier * sqrt(self.fraction * (1.0 - self.fraction) / self._weight)
        below, above = self.fraction - apart, self.fraction + apart
        return (
            self._at(below) if below > 0.0 else 0.0,
            self._at(above) if above < 1.0 else inf,
        )

    @property
    def _weight(self) -> float:
        return max(self.n / max(self.counted.design_effect, 1.0), 1.0)

    def _at(self, share: float) -> float:
        """The value at a rank, evenly spread by ratio within its bucket."""
        buckets, ranks = self._ranks
        wanted = min(max(share, 0.0), 1.0) * ranks[-1]
        place = min(bisect_left(ranks, wanted), len(ranks) - 1)
        before = ranks[place - 1] if place else 0
        within = (wanted - before) / (ranks[place] - before)
        return float(GROWTH ** (buckets[place] - 1 + min(max(within, 0.0), 1.0)))


def design_effect(sums: UnitSums, value_squares: float) -> float:
    """By how much less the requests of these units tell than as many independent ones (Kish).

    `sums` has of each unit its requests as `x` and the sum of their values as `y`;
    `value_squares` is the sum of the squares of all single values. Never less than 1, and never
    more than if all requests of a unit were one.
    """
    if sums.n == 0 or sums.x <= 0:
        return 1.0
    most = sums.xx / sums.x
    mean = sums.y / sums.x
    alone = (value_squares / sums.x - mean * mean) / sums.x
    clustered = estimate(sums).variance
    if clustered is None or alone <= 0:
        return max(most, 1.0)
    return min(max(clustered / alone, 1.0), max(most, 1.0))

"""How surely a share of few is known."""

from math import sqrt

from controlplane.decisions.experiments.contrasts import UNBOUNDED, Bounds
from controlplane.decisions.experiments.tails import normal_quantile


def wilson_bounds(events: int, trials: int, alpha: float) -> Bounds:
    """The interval of level 1 - alpha of a share at one look (Wilson 1927); of no trial none.

    It never leaves 0 to 1 and is right for few trials and rare events, where the usual one isn't.
    """
    if trials == 0:
        return UNBOUNDED
    share, squared = events / trials, normal_quantile(alpha / 2.0) ** 2
    middle = share + squared / (2.0 * trials)
    half = sqrt(squared * (share * (1.0 - share) / trials + squared / (4.0 * trials * trials)))
    whole = 1.0 + squared / trials
    return Bounds(max((middle - half) / whole, 0.0), min((middle + half) / whole, 1.0))

"""When figures may be looked at, and how wide an interval must be for it.

Sequential: the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas
(Annals of Statistics 2024), the mixture of Robbins that mSPRT uses too. Over all looks together the
interval misses with a chance of at most alpha, so one may look whenever one likes and stop for what
one sees. Fixed: Welch's t at one look, at a size that was named before; earlier figures are not
final.

A score is a difference in standard errors, a multiplier the score at which the interval ends. Both
frameworks turn one into the other, so intervals and p-values never contradict each other.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, log, log1p, sqrt
from typing import Protocol

from controlplane.decisions.experiments.tails import (
    log_normal_below,
    student_quantile,
    student_tail,
)


class Looks(StrEnum):
    """The framework of an experiment."""

    SEQUENTIAL = "sequential"
    FIXED = "fixed"


class Framework(Protocol):
    """What turns scores into intervals and p-values.

    `units` is how many units both variants have together, `degrees` those of freedom (infinite:
    normal).
    """

    def multiplier(self, alpha: float, units: float, degrees: float = inf) -> float:
        """How many standard errors the interval of level 1 - alpha is wide to each side."""

    def p_value(self, score: float, units: float, degrees: float = inf) -> float:
        """The smallest alpha whose interval leaves out what the score was taken against."""


@dataclass(frozen=True, slots=True)
class FixedHorizon:
    """One look: Welch's t."""

    def multiplier(self, alpha: float, units: float, degrees: float = inf) -> float:
        return student_quantile(alpha / 2.0, degrees)

    def p_value(self, score: float, units: float, degrees: float = inf) -> float:
        return min(1.0, 2.0 * student_tail(abs(score), degrees))


@dataclass(frozen=True, slots=True)
class AnyTime:
    """Any number of looks: a normal mixture whose weight is that of `prior_units` units."""

    prior_units: float

    def multiplier(self, alpha: float, units: float, degrees: float = inf) -> float:
        weight = self.prior_units / units
        return sqrt((1.0 + weight) * (log1p(1.0 / weight) - 2.0 * log(alpha)))

    def p_value(self, score: float, units: float, degrees: float = inf) -> float:
        return _p_of(self.log_e_value(score, units))

    def log_e_value(self, score: float, units: float) -> float:
        """The logarithm of the evidence against no difference; 1 over it is the p-value."""
        weight = self.prior_units / units
        return 0.5 * (score * score / (1.0 + weight) - log1p(1.0 / weight))

    def p_above(self, score: float, units: float) -> float:
        """The p-value against "not above 0", valid at any look: for harm one side is enough."""
        weight = self.prior_units / units
        above = log_normal_below(score / sqrt(1.0 + weight))
        return _p_of(self.log_e_value(score, units) + log(2.0) + above)


def tuned(units: float, alpha: float) -> AnyTime:
    """The confidence sequence that is narrowest when so many units are there.

    It holds at any size whatever it was tuned to. Say so before looking: the size must not follow
    from the figures.
    """
    if units <= 0:
        raise ValueError("a confidence sequence is tuned to one unit or more")
    wanted = -2.0 * log(alpha)
    return AnyTime(units / (wanted + log(wanted) + 1.0))


def _p_of(log_e_value: float) -> float:
    return exp(-log_e_value) if log_e_value > 0 else 1.0

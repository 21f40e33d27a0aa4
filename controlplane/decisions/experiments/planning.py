"""How many units an experiment takes, what it can find with those it has, and how long that lasts.

A sequence pays for free looks with a wider interval. Sizes for it are for the power at the last
look alone: what was found at earlier looks comes on top, so the power is at least the named one,
and most effects that are larger than the smallest are found long before.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from controlplane.decisions.experiments.looks import FixedHorizon, Framework, Looks, tuned
from controlplane.decisions.experiments.sums import UnitSums, estimate
from controlplane.decisions.experiments.tails import normal_quantile

_MOST_UNITS = 1e15
"""Beyond this no number of units is said to be enough."""

_PRECISE = 1e-4


@dataclass(frozen=True, slots=True)
class Baseline:
    """The primary metric before: its mean and the variance of a unit.

    Of a rate, the variance is `rate * (1 - rate)`; of a ratio, that of a unit's
    `(value - ratio * denominator) / mean denominator`.
    """

    mean: float
    variance: float


def baseline(sums: UnitSums, *, is_rate: bool = False) -> Baseline | None:
    """What units did before, as the wizard plans by; None of fewer than two units."""
    mean = estimate(sums, is_rate=is_rate)
    if mean.value is None or mean.variance is None:
        return None
    return Baseline(mean.value, mean.variance * mean.n)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to expect; `units` of control and treatment together, None if no number is enough."""

    units: int | None
    units_by_arm: tuple[int, int] | None
    days: float | None


def plan(
    baseline: Baseline,
    shares: tuple[float, float],
    *,
    effect: float,
    alpha: float,
    power: float,
    looks: Looks,
    units_a_day: float | None = None,
) -> Plan:
    """How many units find an effect, given as a share of the mean, with the named power.

    `shares` are those of control and treatment in any scale, `units_a_day` what comes to both.
    """
    smallest = effect * abs(baseline.mean)
    variance = _spread_of(baseline.variance, baseline.variance, shares)
    if smallest == 0.0:
        return Plan(None, None, None)
    wide = _multiplier_at_plan(looks, alpha) + normal_quantile(1.0 - power)
    units = variance * (wide / smallest) ** 2
    # rounded first: 5.000000001 by rounding is 5
    by_arm = tuple(max(ceil(round(units * share / sum(shares), 6)), 1) for share in shares)
    return Plan(sum(by_arm), (by_arm[0], by_arm[1]), days_left(sum(by_arm), units_a_day))


def _multiplier_at_plan(looks: Looks, alpha: float) -> float:
    """How many standard errors the interval is wide when the planned size is reached."""
    if looks is Looks.FIXED:
        return FixedHorizon().multiplier(alpha, 1.0)
    return tuned(1.0, alpha).multiplier(alpha, 1.0)


def _spread_of(control: float, treatment: float, shares: tuple[float, float]) -> float:
    """The variance of the difference of both means, times the units of both together."""
    return sum(shares) * (control / shares[0] + treatment / shares[1])


def smallest_effect(
    standard_error: float, framework: Framework, *, units: int, alpha: float, power: float
) -> float:
    """The difference that would be found now with the named power, in the metric's own unit."""
    return (framework.multiplier(alpha, units) + normal_quantile(1.0 - power)) * standard_error


def units_needed(
    standard_error: float,
    framework: Framework,
    *,
    units: int,
    effect: float,
    alpha: float,
    power: float,
) -> int | None:
    """How many units of both arms find a difference, by how it stands with `units` of them.

    The difference is in the metric's own unit and above 0; None if no number is enough.
    """
    if effect <= 0.0:
        return None
    spread = standard_error * sqrt(units)

    def is_enough(n: float) -> bool:
        error = spread / sqrt(n)
        found = smallest_effect(error, framework, units=ceil(n), alpha=alpha, power=power)
        return found <= effect

    low, high = 1.0, 2.0
    while not is_enough(high):
        low, high = high, 2.0 * high
        if high > _MOST_UNITS:
            return None
    while high - low > max(1.0, _PRECISE * low):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return ceil(high)


def days_left(units: float, units_a_day: float | None) -> float | None:
    """How long so many more units take; None where none come."""
    if units <= 0:
        return 0.0
    return units / units_a_day if units_a_day else None

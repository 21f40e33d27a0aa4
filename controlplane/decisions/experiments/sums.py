"""What the units of a variant did, as sums, and what these say of the average unit.

A unit is what is drawn into a variant: a user, a session, a key or a request. It has a value and a
denominator, so that one formula serves all: a mean has the denominator 1, a rate or a ratio the
unit's own requests or tokens, and units that differ in size are clusters, as they must be (delta
method). Units without a value are not among them: null is not 0.

Whole numbers stay exact through all products, so nano-dollars squared lose nothing; give them as
`int`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

Number = int | float

_ROUNDING = 1e-13
"""Of floats, a sum of squares smaller than this share of its terms is what rounding left."""


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums over units: values `y`, denominators `x`, covariates `c`, their squares and products.

    The covariate is what the unit did before it took part, in any scale; a unit without a past has
    0 there, which costs reduction and no correctness.
    """

    n: int
    y: Number
    yy: Number
    x: Number
    xx: Number
    xy: Number
    c: Number = 0
    cc: Number = 0
    cy: Number = 0
    cx: Number = 0


NO_UNITS = UnitSums(0, 0, 0, 0, 0, 0)


def sums_of_means(n: int, total: Number, squares: Number) -> UnitSums:
    """Sums of units that each have one value; `squares` is the sum of the values' squares."""
    return UnitSums(n, total, squares, n, n, total)


def sum_units(units: Iterable[tuple[Number, Number, Number]]) -> UnitSums:
    """Sums of units given one by one as value, denominator (1 for a mean) and covariate."""
    n = 0
    y: Number = 0
    yy, x, xx, xy, c, cc, cy, cx = (y,) * 8
    for value, size, past in units:
        n += 1
        y, yy = y + value, yy + value * value
        x, xx, xy = x + size, xx + size * size, xy + size * value
        c, cc, cy, cx = c + past, cc + past * past, cy + past * value, cx + past * size
    return UnitSums(n, y, yy, x, xx, xy, c, cc, cy, cx)


@dataclass(frozen=True, slots=True)
class Mean:
    """A variant's mean, rate or ratio, and how far it may be off.

    `variance` is that of the estimate, not of a unit; None where it can't be told, and `value` None
    where there is nothing to divide by. `reduction` is the share of the variance that the covariate
    took away.
    """

    n: int
    value: float | None
    variance: float | None
    reduction: float | None = None

    @property
    def standard_error(self) -> float | None:
        """The root of the variance; 0 where no unit differs."""
        return None if self.variance is None else sqrt(self.variance)

    def limits(self, multiplier: float) -> tuple[float, float] | None:
        """So many standard errors below and above the value."""
        if self.value is None or self.standard_error is None:
            return None
        width = multiplier * self.standard_error
        return self.value - width, self.value + width


def estimate(sums: UnitSums, *, is_rate: bool = False) -> Mean:
    """The ratio of values to denominators with its variance between units.

    A rate of few events has at least the variance of one event more among its trials: none in a
    hundred doesn't mean that there can be none.
    """
    if sums.n == 0 or sums.x <= 0:
        return Mean(sums.n, None, None)
    value = sums.y / sums.x
    if sums.n < 2:
        return Mean(sums.n, value, None)
    variance = _spread(sums) / (sums.n - 1) / sums.n
    return Mean(sums.n, value, max(variance, _least_variance(sums)) if is_rate else variance)


def _least_variance(sums: UnitSums) -> float:
    share = min(max((sums.y + 1) / (sums.x + 2), 0.0), 1.0)
    return share * (1.0 - share) / sums.x


def _spread(sums: UnitSums) -> float:
    """The sum of squares of what each unit is off the ratio, in the ratio's own scale."""
    n, y, x = sums.n, sums.y, sums.x
    terms = x * x * sums.yy + y * y * sums.xx
    return n * n * _kept(terms - 2 * x * y * sums.xy, terms) / x / x / x / x


def _kept(difference: Number, terms: Number) -> Number:
    if isinstance(difference, int):
        return max(difference, 0)
    return difference if difference > _ROUNDING * abs(terms) else 0


def adjust(arms: tuple[UnitSums, ...], *, is_rate: bool = False) -> tuple[Mean, ...]:
    """The estimates of all variants, less what their units' past explains (CUPED).

    One slope serves all variants, so differences between them stay unbiased, and none of what the
    experiment did is taken away: the past came before it. Without a covariate that varies these are
    the plain estimates.
    """
    plain = tuple(estimate(sums, is_rate=is_rate) for sums in arms)
    pasts = [_past(sums) for sums in arms]
    across = sum(past.across for past in pasts)
    units = sum(sums.n for sums in arms)
    if across <= 0 or units == 0:
        return plain
    slope = sum(past.along for past in pasts) / across
    middle = sum(sums.c for sums in arms) / units
    return tuple(
        _adjusted(mean, sums, past, slope=slope, middle=middle)
        for mean, sums, past in zip(plain, arms, pasts, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Past:
    """How the covariate varies between units, and how what a unit is off goes along with it."""

    across: float
    along: float


def _past(sums: UnitSums) -> _Past:
    if sums.n < 2 or sums.x <= 0:
        return _Past(0.0, 0.0)
    terms = sums.n * sums.cc
    across = _kept(terms - sums.c * sums.c, terms) / sums.n
    return _Past(across, (sums.x * sums.cy - sums.y * sums.cx) * sums.n / sums.x / sums.x)


def _adjusted(mean: Mean, sums: UnitSums, past: _Past, *, slope: float, middle: float) -> Mean:
    if mean.value is None or not mean.variance:
        return mean
    value = mean.value - slope * (sums.c / sums.n - middle)
    spread = _spread(sums)
    if spread <= 0:
        return Mean(mean.n, value, mean.variance, 0.0)
    left = (spread - 2.0 * slope * past.along + slope * slope * past.across) / spread
    left = max(left, 0.0)
    return Mean(mean.n, value, mean.variance * left, 1.0 - left)

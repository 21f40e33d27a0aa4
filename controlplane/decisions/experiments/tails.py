"""Tails of the normal, Student's and the chi-squared distribution, without a library for it."""

from math import erfc, exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()
_FAR = -8.0
"""Below this the normal's logarithm is read from its expansion, for the tail itself vanishes."""
_STEPS = 500
_PRECISE = 1e-15
_TINY = 1e-300


def normal_tail(z: float) -> float:
    """The chance of a standard normal value above `z`."""
    return 0.5 * erfc(z / sqrt(2.0))


def normal_quantile(tail: float) -> float:
    """The value that a standard normal exceeds with the chance `tail`, 0 < tail < 1."""
    return -_NORMAL.inv_cdf(tail)


def log_normal_below(z: float) -> float:
    """The logarithm of the chance of a standard normal value below `z`, however far out."""
    if z > _FAR:
        return log(normal_tail(-z))
    return -0.5 * z * z - log(-z * sqrt(2.0 * pi)) + log1p(-1.0 / (z * z))


def student_tail(t: float, degrees: float) -> float:
    """The chance that Student's t exceeds `t`; infinitely many degrees are the normal's."""
    if degrees == inf:
        return normal_tail(t)
    half = 0.5 * _beta_share(degrees / (degrees + t * t), 0.5 * degrees, 0.5)
    return half if t >= 0 else 1.0 - half


def student_quantile(tail: float, degrees: float) -> float:
    """The value that Student's t exceeds with the chance `tail`, 0 < tail < 0.5."""
    if degrees == inf:
        return normal_quantile(tail)
    # the tail falls ever more slowly, so from below no step goes too far
    found = normal_quantile(tail)
    for _ in range(_STEPS):
        step = (student_tail(found, degrees) - tail) / _student_density(found, degrees)
        found += step
        if step <= _PRECISE * found:
            break
    return found


def _student_density(t: float, degrees: float) -> float:
    whole, half = 0.5 * (degrees + 1.0), 0.5 * degrees
    scale = lgamma(whole) - lgamma(half) - 0.5 * log(degrees * pi)
    return exp(scale - whole * log1p(t * t / degrees))


def chi_squared_tail(value: float, degrees: int) -> float:
    """The chance that chi-squared of so many degrees exceeds `value`.

    The finite sums of whole degrees: exact, where a general incomplete gamma function converges.
    """
    if value <= 0:
        return 1.0
    half = 0.5 * value
    if degrees % 2 == 0:
        return exp(-half) * sum(exp(k * log(half) - lgamma(k + 1.0)) for k in range(degrees // 2))
    terms = (
        exp((k - 0.5) * log(half) - half - lgamma(k + 0.5)) for k in range(1, degrees // 2 + 1)
    )
    return erfc(sqrt(half)) + sum(terms)


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta_share(1.0 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(_STEPS):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 / _apart(1.0 + term * d)
        c = _apart(1.0 + term / c)
        fraction *= c * d
        if abs(1.0 - c * d) < _PRECISE:
            break
    return front * (fraction - 1.0)


def _apart(value: float) -> float:
    """Keep a denominator away from zero."""
    return value if abs(value) > _TINY else _TINY

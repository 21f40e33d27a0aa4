"""How a variant differs from the control: by how much, by what share, and how surely.

All follows from the limits of either, put together by their squares (MOVER, Zou and Donner 2008):
exact for means, whose limits are even, and right for quantiles, whose are not. Differences by a
share are by Fieller's theorem, so they answer as the plain difference does whether there is one,
and are unbounded where the control can't be told from 0.
"""

from dataclasses import dataclass
from math import copysign, hypot, inf, isfinite, sqrt
from typing import Protocol

_HIGHEST_SCORE = 100.0
_HALVINGS = 40


class Level(Protocol):
    """What is known of one variant: a mean or a quantile."""

    @property
    def n(self) -> int:
        """How many there are of what was averaged."""

    @property
    def value(self) -> float | None:
        """The estimate; None if there is none."""

    @property
    def standard_error(self) -> float | None:
        """What all its limits are a multiple of; None where they are uneven, or unknown."""

    @property
    def reduction(self) -> float | None:
        """The share of the variance that the units' past took away; None where it wasn't asked."""

    def limits(self, multiplier: float) -> tuple[float, float] | None:
        """The values so many standard errors below and above; None where it can't be told."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval; None is unbounded on that side."""

    low: float | None
    high: float | None

    def excludes(self, value: float) -> bool:
        """Whether the value lies outside."""
        is_above = self.low is not None and self.low > value
        return is_above or (self.high is not None and self.high < value)


UNBOUNDED = Bounds(None, None)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A treatment against the control."""

    control: Level
    treatment: Level

    @property
    def absolute(self) -> float | None:
        """The difference of both; None if either has no value."""
        if self.control.value is None or self.treatment.value is None:
            return None
        return self.treatment.value - self.control.value

    @property
    def relative(self) -> float | None:
        """The difference as a share of the control; None if that is 0."""
        if self.absolute is None or not self.control.value:
            return None
        return self.absolute / abs(self.control.value)

    @property
    def degrees(self) -> float:
        """Welch's degrees of freedom; infinite where limits are uneven."""
        one, other = self.control.standard_error, self.treatment.standard_error
        if (not one and not other) or one is None or other is None:
            return inf
        shares = one**4 / (self.control.n - 1) + other**4 / (self.treatment.n - 1)
        return (one * one + other * other) ** 2 / shares

    def score(self, factor: float = 1.0, offset: float = 0.0) -> float | None:
        """How many standard errors the treatment is above `factor` times the control plus `offset`.

        `factor` is not negative. None where it can't be told: no value, one unit, or units that are
        all alike.
        """
        control, treatment = self.control.value, self.treatment.value
        if control is None or treatment is None or self._spans(1.0) is None:
            return None
        above = treatment - factor * control - offset
        one, other = self.control.standard_error, self.treatment.standard_error
        if one is None or other is None:
            return self._uneven_score(above, factor)
        return above / hypot(factor * one, other)

    def absolute_bounds(self, multiplier: float) -> Bounds:
        """The interval of the difference."""
        absolute, spans = self.absolute, self._spans(multiplier)
        if absolute is None or spans is None:
            return UNBOUNDED
        return Bounds(
            _finite(absolute - hypot(spans.control_up, spans.treatment_down)),
            _finite(absolute + hypot(spans.control_down, spans.treatment_up)),
        )

    def relative_bounds(self, multiplier: float) -> Bounds:
        """The interval of the difference as a share of the control's size."""
        control, treatment, spans = (
            self.control.value,
            self.treatment.value,
            self._spans(multiplier),
        )
        if not control or treatment is None or spans is None:
            return UNBOUNDED
        if control < 0:
            low, high = _quotients(-control, -treatment, spans.mirrored())
            return Bounds(_minus(1.0, high), _minus(1.0, low))
        low, high = _quotients(control, treatment, spans)
        return Bounds(_minus(low, 1.0), _minus(high, 1.0))

    def _spans(self, multiplier: float) -> "_Spans | None":
        control, treatment = self.control.value, self.treatment.value
        one, other = self.control.limits(multiplier), self.treatment.limits(multiplier)
        if control is None or treatment is None or one is None or other is None:
            return None
        spans = _Spans(
            control - one[0], one[1] - control, treatment - other[0], other[1] - treatment
        )
        return spans if spans.is_any else None

    def _uneven_score(self, above: float, factor: float) -> float:
        """The multiplier at which the interval begins to touch, found by halving."""
        low, high = 0.0, _HIGHEST_SCORE
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            spans = self._spans(middle)
            is_clear = spans is not None and spans.apart(factor, above > 0) < abs(above)
            low, high = (middle, high) if is_clear else (low, middle)
        return low if above > 0 else -low


@dataclass(frozen=True, slots=True)
class _Spans:
    """How far down and up the limits of control and treatment are from their values."""

    control_down: float
    control_up: float
    treatment_down: float
    treatment_up: float

    @property
    def is_any(self) -> bool:
        control, treatment = (
            self.control_down + self.control_up,
            self.treatment_down + self.treatment_up,
        )
        return control + treatment > 0.0

    def mirrored(self) -> "_Spans":
        return _Spans(self.control_up, self.control_down, self.treatment_up, self.treatment_down)

    def apart(self, factor: float, is_above: bool) -> float:
        """How far a treatment that is above must be to be surely above; or else below."""
        if is_above:
            return hypot(factor * self.control_up, self.treatment_down)
        return hypot(factor * self.control_down, self.treatment_up)


def _quotients(
    control: float, treatment: float, spans: _Spans
) -> tuple[float | None, float | None]:
    """The limits of treatment by control, the control being above 0."""
    return (
        _quotient(control, treatment, spans.control_up, -spans.treatment_down),
        _quotient(control, treatment, spans.control_down, spans.treatment_up),
    )


def _quotient(control: float, treatment: float, width: float, signed: float) -> float | None:
    """The factor at which treatment - factor * control is just as far off as it may be."""
    apart = control * control - width * width
    if not isfinite(width) or not isfinite(signed) or apart <= 0.0:
        return None
    root = sqrt(signed * signed * apart + width * width * treatment * treatment)
    return (control * treatment + copysign(root, signed)) / apart


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None

"""Intervals and p-values of both frameworks, against their published forms."""

from math import exp, log, pi, sqrt

import pytest

from controlplane.decisions.experiments.contrasts import Contrast
from controlplane.decisions.experiments.looks import AnyTime, FixedHorizon, tuned
from controlplane.decisions.experiments.sums import estimate
from tests.decisions.experiments.readings import values


@pytest.mark.parametrize(
    ("one", "other", "p_value"),
    [
        (
            "27.5 21.0 19.0 23.6 17.0 17.9 16.9 20.1 21.9 22.6 23.1 19.6 19.0 21.7 21.4",
            "27.1 22.0 20.8 23.4 23.4 23.5 25.8 22.0 24.8 20.2 21.9 22.1 22.9 20.5 24.4",
            0.021378001462867,
        ),
        (
            "30.02 29.99 30.11 29.97 30.01 29.99",
            "29.89 29.93 29.72 29.98 30.02 29.98",
            0.090773324285671,
        ),
        ("3.0 4.0 1.0 2.1", "490.2 340.0 433.9", 0.010751561149785),
    ],
)
def test_a_fixed_horizon_is_welchs_t(one: str, other: str, p_value: float) -> None:
    control, treatment = (
        estimate(values(*(float(value) for value in units.split()))) for units in (one, other)
    )
    contrast = Contrast(control, treatment)
    score, fixed = contrast.score(), FixedHorizon()
    assert score is not None
    assert fixed.p_value(score, 1, contrast.degrees) == pytest.approx(p_value, rel=1e-9)
    wide = fixed.multiplier(p_value, 1, contrast.degrees)
    assert wide == pytest.approx(abs(score), rel=1e-9)


def test_a_sequence_is_that_of_the_paper() -> None:
    looks, alpha = AnyTime(500.0), 0.05
    rho = 1 / 500.0
    for t in (10, 500, 100_000):
        root = sqrt(t * rho + 1)
        width = sqrt(2 * (t * rho + 1) / (t * t * rho) * log(root / alpha))
        assert looks.multiplier(alpha, t) == pytest.approx(width * sqrt(t), rel=1e-12)


def test_a_p_value_is_the_level_at_which_the_interval_ends() -> None:
    looks = tuned(10_000, 0.05)
    for units in (200, 5_000, 80_000):
        for alpha in (0.05, 1e-6):
            edge = looks.multiplier(alpha, units)
            assert looks.p_value(edge, units) == pytest.approx(alpha, rel=1e-9)
            assert looks.p_value(-edge, units) == pytest.approx(alpha, rel=1e-9)
    assert looks.p_value(0.0, 200) == 1.0


def test_a_sequence_is_narrowest_where_it_was_tuned_to() -> None:
    wide = {plan: tuned(plan, 0.05).multiplier(0.05, 10_000) for plan in (1_000, 10_000, 100_000)}
    assert min(wide, key=lambda plan: wide[plan]) == 10_000
    assert wide[10_000] == pytest.approx(3.03, abs=0.01)
    with pytest.raises(ValueError, match="one unit"):
        tuned(0, 0.05)


def test_one_side_is_the_mixture_of_effects_above_zero() -> None:
    looks, units = AnyTime(100.0), 400
    for score in (-3.0, 0.0, 2.0, 4.0):
        evidence = _mixture(score, units, looks.prior_units)
        expected = min(1.0, 1.0 / evidence)
        assert looks.p_above(score, units) == pytest.approx(expected, rel=1e-4)
    assert looks.p_above(4.0, units) < looks.p_value(4.0, units)
    assert looks.p_above(-4.0, units) == 1.0


def _mixture(score: float, units: float, prior_units: float) -> float:
    """The likelihood ratio of effects above 0 against none, by the trapezoidal rule."""
    total, steps, most = 0.0, 20_000, 10.0 / sqrt(prior_units)
    total_at = score * sqrt(units)
    for place in range(steps + 1):
        effect = most * place / steps
        prior = 2 * sqrt(prior_units / (2 * pi)) * exp(-effect * effect * prior_units / 2)
        weight = 0.5 if place in (0, steps) else 1.0
        total += weight * prior * exp(effect * total_at - effect * effect * units / 2)
    return total * most / steps

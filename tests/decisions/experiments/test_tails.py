"""Tails of distributions, against published tables."""

from math import inf, isclose, log, pi, sqrt

import pytest

from controlplane.decisions.experiments.tails import (
    chi_squared_tail,
    log_normal_below,
    normal_quantile,
    normal_tail,
    student_quantile,
    student_tail,
)


@pytest.mark.parametrize(
    ("tail", "degrees", "value"),
    [
        (0.025, 1, 12.7062047),
        (0.025, 2, 4.3026527),
        (0.025, 10, 2.2281389),
        (0.0005, 3, 12.9239787),
        (0.05, 30, 1.6972609),
        (0.025, 1_000, 1.9623391),
        (0.025, inf, 1.9599640),
    ],
)
def test_students_t_is_that_of_the_tables(tail: float, degrees: float, value: float) -> None:
    assert student_quantile(tail, degrees) == pytest.approx(value, abs=1e-7)
    assert student_tail(value, degrees) == pytest.approx(tail, rel=1e-6)
    assert student_tail(-value, degrees) == pytest.approx(1.0 - tail, rel=1e-6)


def test_one_and_two_degrees_have_closed_forms() -> None:
    for t in (0.1, 1.0, 3.0, 50.0):
        assert student_tail(t, 2) == pytest.approx(0.5 - t / (2 * sqrt(2 + t * t)), rel=1e-9)
    assert student_tail(1.0, 1) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "degrees", "tail"),
    [
        (3.8414588, 1, 0.05),
        (10.8275662, 1, 0.001),
        (5.9914645, 2, 0.05),
        (16.2662362, 3, 0.001),
        (18.4668270, 4, 0.001),
        (37.5662348, 20, 0.01),
        (0.0, 3, 1.0),
    ],
)
def test_chi_squared_is_that_of_the_tables(value: float, degrees: int, tail: float) -> None:
    assert chi_squared_tail(value, degrees) == pytest.approx(tail, rel=1e-6)


def test_normal_tails_hold_far_out() -> None:
    assert normal_tail(1.959963984540054) == pytest.approx(0.025, rel=1e-12)
    assert normal_tail(10.0) == pytest.approx(7.619853e-24, rel=1e-6)
    assert normal_quantile(1e-12) == pytest.approx(7.0344838, abs=1e-7)


def test_the_logarithm_of_the_normal_goes_on_where_the_tail_vanishes() -> None:
    assert isclose(log_normal_below(-7.99), log(normal_tail(7.99)), rel_tol=1e-12)
    assert isclose(log_normal_below(-8.01), log(normal_tail(8.01)), rel_tol=1e-4)
    assert log_normal_below(-1_000.0) == pytest.approx(-500_000 - log(1_000 * sqrt(2 * pi)))
    assert log_normal_below(50.0) == 0.0

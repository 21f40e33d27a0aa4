"""Weights of a bandit, and shares of few."""

from math import sqrt

import pytest

from controlplane.decisions.experiments.bandits import chances_to_be_best, weigh_arms
from controlplane.decisions.experiments.contrasts import UNBOUNDED
from controlplane.decisions.experiments.design import Better
from controlplane.decisions.experiments.proportions import wilson_bounds
from controlplane.decisions.experiments.sums import Mean
from controlplane.decisions.experiments.tails import normal_tail


def test_the_chance_of_the_better_of_two_has_a_closed_form() -> None:
    one, other = Mean(100, 1.0, 0.04), Mean(100, 1.5, 0.09)
    below = normal_tail(0.5 / sqrt(0.13))
    assert chances_to_be_best([one, other], Better.HIGHER) == (
        pytest.approx(below, rel=1e-6),
        pytest.approx(1 - below, rel=1e-6),
    )
    assert chances_to_be_best([one, other], Better.LOWER) == (
        pytest.approx(1 - below, rel=1e-6),
        pytest.approx(below, rel=1e-6),
    )


def test_alike_variants_are_as_likely_and_one_far_off_is_never_the_best() -> None:
    same = [Mean(100, 1.0, 0.04)] * 4
    assert chances_to_be_best(same, Better.HIGHER) == (pytest.approx(0.25),) * 4
    found = chances_to_be_best([*same, Mean(100, -99.0, 0.04)], Better.HIGHER)
    assert found is not None
    assert found[4] == 0.0


def test_nobody_knows_before_all_have_an_error() -> None:
    known = Mean(100, 1.0, 0.04)
    for unknown in (Mean(0, None, None), Mean(1, 1.0, None), Mean(9, 1.0, 0.0)):
        assert chances_to_be_best([known, unknown], Better.HIGHER) is None


def test_weights_keep_a_floor_and_sum_to_the_whole() -> None:
    assert weigh_arms((1.0, 0.0, 0.0), 3, 500) == (9_000, 500, 500)
    assert weigh_arms((1 / 3, 1 / 3, 1 / 3), 3, 0) == (3_334, 3_333, 3_333)
    assert weigh_arms(None, 4, 100) == (2_500,) * 4
    assert weigh_arms((0.9, 0.1), 2, 9_000) == (5_000, 5_000)


def test_wilsons_interval_is_the_published_one() -> None:
    # Newcombe (1998), 81 of 263, 15 of 148, 0 of 20, 1 of 29
    for events, trials, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        found = wilson_bounds(events, trials, 0.05)
        assert found.low == pytest.approx(low, abs=5e-5)
        assert found.high == pytest.approx(high, abs=5e-5)
    assert wilson_bounds(0, 0, 0.05) == UNBOUNDED

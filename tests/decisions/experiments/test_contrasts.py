"""Differences: intervals, tests and shares that say the same."""

from math import inf, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.experiments.contrasts import UNBOUNDED, Bounds, Contrast
from controlplane.decisions.experiments.looks import tuned
from controlplane.decisions.experiments.quantiles import Counted, Quantile
from controlplane.decisions.experiments.sums import Mean
from inference.decisions.histograms import bucket_of

LOOKS = tuned(10_000, 0.05)


def quantile(fraction: float, *times: float) -> Quantile:
    buckets: dict[int, int] = {}
    for time in times:
        buckets[bucket_of(time)] = buckets.get(bucket_of(time), 0) + 1
    return Quantile(Counted(buckets), fraction)


def test_a_difference_of_means_is_so_many_standard_errors_wide() -> None:
    contrast = Contrast(Mean(100, 10.0, 0.09), Mean(100, 11.0, 0.16))
    assert contrast.absolute == 1.0
    assert contrast.relative == pytest.approx(0.1)
    assert contrast.score() == pytest.approx(2.0)
    assert contrast.absolute_bounds(2.0) == Bounds(pytest.approx(0.0), pytest.approx(2.0))
    assert contrast.score(factor=1.1) == pytest.approx(0.0)
    assert contrast.score(offset=0.5) == pytest.approx(1.0)


def test_a_difference_by_a_share_is_fiellers() -> None:
    bounds = Contrast(Mean(9, 10.0, 0.25), Mean(9, 12.0, 1.0)).relative_bounds(2.0)
    # g = (2 * 0.5 / 10)^2 = 0.01; the ratio is 1.2
    half = 2 / 10 * sqrt(1.0 * 0.99 + 1.44 * 0.25)
    assert bounds.low == pytest.approx((1.2 - half) / 0.99 - 1)
    assert bounds.high == pytest.approx((1.2 + half) / 0.99 - 1)


def test_a_share_of_what_may_be_zero_is_unbounded_and_of_zero_there_is_none() -> None:
    near = Contrast(Mean(9, 1.0, 1.0), Mean(9, 5.0, 1.0))
    assert near.relative == 4.0
    assert near.relative_bounds(2.0) == UNBOUNDED
    at_zero = Contrast(Mean(9, 0.0, 0.1), Mean(9, 5.0, 1.0))
    assert at_zero.relative is None
    assert at_zero.relative_bounds(2.0) == UNBOUNDED
    assert at_zero.absolute_bounds(2.0).low == pytest.approx(5.0 - 2.0 * sqrt(1.1))


def test_shares_of_a_negative_control_are_of_its_size() -> None:
    up = Contrast(Mean(9, -10.0, 0.25), Mean(9, -8.0, 1.0))
    down = Contrast(Mean(9, 10.0, 0.25), Mean(9, 8.0, 1.0))
    assert up.relative == pytest.approx(0.2)
    mirrored, bounds = down.relative_bounds(2.0), up.relative_bounds(2.0)
    assert mirrored.low is not None
    assert mirrored.high is not None
    assert (bounds.low, bounds.high) == (
        pytest.approx(-mirrored.high),
        pytest.approx(-mirrored.low),
    )


@pytest.mark.parametrize(
    ("control", "treatment"),
    [
        (Mean(0, None, None), Mean(9, 1.0, 0.1)),
        (Mean(9, 1.0, 0.1), Mean(0, None, None)),
        (Mean(1, 1.0, None), Mean(9, 1.0, 0.1)),
        (Mean(9, 1.0, 0.0), Mean(9, 2.0, 0.0)),
    ],
)
def test_what_cannot_be_compared_has_no_score_and_no_bounds(control: Mean, treatment: Mean) -> None:
    contrast = Contrast(control, treatment)
    assert contrast.score() is None
    assert contrast.absolute_bounds(2.0) == contrast.relative_bounds(2.0) == UNBOUNDED
    assert contrast.degrees in (inf, 8)


def test_one_arm_whose_units_are_alike_is_compared_by_the_other() -> None:
    contrast = Contrast(Mean(100, 5.0, 0.0), Mean(100, 6.0, 0.25))
    assert contrast.score() == 2.0
    assert contrast.degrees == pytest.approx(99.0)


LEVELS = st.builds(
    Mean, st.just(500), st.floats(-50.0, 50.0), st.floats(1e-6, 100.0, allow_subnormal=False)
)


@given(control=LEVELS, treatment=LEVELS, units=st.integers(200, 100_000))
def test_intervals_and_p_values_of_means_agree(control: Mean, treatment: Mean, units: int) -> None:
    agree(Contrast(control, treatment), units)


@given(
    fraction=st.sampled_from([0.5, 0.9, 0.95]),
    seed=st.integers(0, 10_000),
    effect=st.floats(0.2, 5.0),
    units=st.integers(200, 5_000),
)
def test_intervals_and_p_values_of_quantiles_agree(
    fraction: float, seed: int, effect: float, units: int
) -> None:
    chance = Random(seed)
    control, treatment = (
        quantile(fraction, *(lift * chance.lognormvariate(5, 1) for _ in range(150)))
        for lift in (1.0, effect)
    )
    agree(Contrast(control, treatment), units)


def agree(contrast: Contrast, units: int) -> None:
    score = contrast.score()
    assert score is not None
    wide = LOOKS.multiplier(0.05, units)
    if abs(abs(score) - wide) < 1e-6:
        return
    is_shown = LOOKS.p_value(score, units) <= 0.05
    assert contrast.absolute_bounds(wide).excludes(0.0) is is_shown
    relative = contrast.relative_bounds(wide)
    if relative.low is not None and relative.high is not None:
        assert relative.excludes(0.0) is is_shown


def test_a_quantiles_limits_are_the_values_at_the_ranks() -> None:
    times = [1.06**place for place in range(200)]
    level = quantile(0.5, *times)
    # ranks 100 -+ 2 * sqrt(200 * 0.25)
    limits = level.limits(2.0)
    assert limits is not None
    assert level.value == pytest.approx(1.06**99, rel=0.05)
    assert limits[0] == pytest.approx(1.06 ** (99 - 14.1), rel=0.06)
    assert limits[1] == pytest.approx(1.06 ** (99 + 14.1), rel=0.06)


def test_a_high_quantile_of_few_has_no_upper_limit_and_no_difference() -> None:
    few = quantile(0.95, *range(1, 60))
    limits = few.limits(3.0)
    assert limits is not None
    assert limits[1] == inf
    contrast = Contrast(few, quantile(0.95, *range(1, 60)))
    assert contrast.absolute_bounds(3.0) == UNBOUNDED
    assert contrast.score() == 0.0
    assert quantile(0.95).value is None
    assert quantile(0.95, 5.0).limits(2.0) is None
    assert Contrast(quantile(0.5), few).score() is None


def test_requests_of_one_user_count_as_fewer() -> None:
    times = {bucket_of(1.06**place): 10 for place in range(100)}
    alone, together = Quantile(Counted(times), 0.5), Quantile(Counted(times, 4.0), 0.5)
    assert alone.limits(4.0) == together.limits(2.0)

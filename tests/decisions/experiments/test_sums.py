"""Estimates from sums, against the same made unit by unit."""

from random import Random
from statistics import fmean, variance

import pytest

from controlplane.decisions.experiments.sums import (
    NO_UNITS,
    Mean,
    UnitSums,
    adjust,
    estimate,
    sum_units,
    sums_of_means,
)
from tests.decisions.experiments.readings import events, values


def test_a_mean_has_the_variance_of_its_units_by_their_number() -> None:
    units = [3, 5, 10, 2, 2]
    found = estimate(values(*units))
    assert (found.n, found.value) == (5, 4.4)
    assert found.variance == pytest.approx(variance(units) / 5, rel=1e-12)
    assert estimate(sums_of_means(5, 22, 142)) == found


def test_no_unit_has_no_value_and_one_has_no_variance() -> None:
    assert estimate(NO_UNITS) == Mean(0, None, None)
    assert estimate(values(7)) == Mean(1, 7.0, None)
    assert estimate(values(0)) == Mean(1, 0.0, None)


def test_units_that_are_all_alike_have_no_variance_not_even_by_rounding() -> None:
    assert estimate(values(*[5] * 50)) == Mean(50, 5.0, 0.0)
    assert estimate(values(*[0.1] * 1_000)).variance == 0.0
    assert estimate(values(*[0] * 50)) == Mean(50, 0.0, 0.0)


def test_a_ratio_without_anything_below_it_has_no_value() -> None:
    assert estimate(sum_units([(5, 0, 0), (3, 0, 0)])).value is None


def test_a_ratio_is_by_all_units_and_varies_as_these_do_from_it() -> None:
    chance = Random(3)
    pairs = [(chance.uniform(1, 9), chance.randint(1, 40)) for _ in range(200)]
    units = [(cost * size, size, 0) for cost, size in pairs]
    found = estimate(sum_units(units))
    ratio = sum(y for y, _, _ in units) / sum(x for _, x, _ in units)
    size = fmean(x for _, x, _ in units)
    off = [(y - ratio * x) / size for y, x, _ in units]
    assert found.value == pytest.approx(ratio, rel=1e-12)
    assert found.variance == pytest.approx(variance(off) / 200, rel=1e-9)


def test_clusters_count_as_what_they_are() -> None:
    alone = [(y, 1, 0) for y in (0, 0, 1, 1) * 100]
    together = [(4 * y, 4, 0) for y in (0, 0, 1, 1) * 25]
    one, other = estimate(sum_units(alone)), estimate(sum_units(together))
    assert one.value == other.value == 0.5
    assert one.variance is not None
    assert other.variance == pytest.approx(4 * one.variance, rel=0.02)


def test_nano_dollars_squared_lose_nothing() -> None:
    far = 10**18
    assert estimate(values(far, far + 1, far + 2)).variance == pytest.approx(1 / 3, rel=1e-12)
    many = UnitSums(10**9, 0, 10**45, 10**9, 10**9, 0)
    assert estimate(many).variance == pytest.approx(1e27, rel=1e-8)


def test_corrections_below_zero_are_values_like_others() -> None:
    found = estimate(values(-4, -2, 3, -9))
    assert found.value == -3.0
    assert found.variance == pytest.approx(variance([-4, -2, 3, -9]) / 4)


def test_no_event_among_few_is_not_never() -> None:
    none, all_of_them = (estimate(events(100, happened), is_rate=True) for happened in (0, 100))
    assert none.value == 0.0
    assert none.variance == pytest.approx((1 / 102) * (101 / 102) / 100)
    assert (all_of_them.value, all_of_them.variance) == (1.0, pytest.approx(none.variance))
    assert estimate(events(1_000, 500), is_rate=True).variance == pytest.approx(0.25 / 999)


def test_the_past_takes_away_what_it_explains() -> None:
    chance = Random(5)
    arms = []
    for lift in (0.0, 1.0):
        pasts = [chance.gauss(10, 2) for _ in range(500)]
        arms.append([(3 * past + lift + chance.gauss(0, 1), 1, past) for past in pasts])
    control, treatment = adjust((sum_units(arms[0]), sum_units(arms[1])))
    plain = [estimate(sum_units(one)) for one in arms]
    slope = _slope(arms)
    middle = fmean(c for one in arms for _, _, c in one)
    for found, before, one in zip((control, treatment), plain, arms, strict=True):
        less = [y - slope * (c - middle) for y, _, c in one]
        assert found.value == pytest.approx(fmean(less), rel=1e-9)
        assert found.variance == pytest.approx(variance(less) / 500, rel=1e-9)
        assert before.variance is not None
        assert found.variance is not None
        assert found.reduction == pytest.approx(1 - found.variance / before.variance)
        assert found.reduction is not None
        assert found.reduction > 0.95
    assert control.value is not None
    assert treatment.value is not None
    assert treatment.value - control.value == pytest.approx(1.0, abs=0.2)


def _slope(arms: list[list[tuple[float, int, float]]]) -> float:
    along = across = 0.0
    for one in arms:
        y, c = fmean(unit[0] for unit in one), fmean(unit[2] for unit in one)
        along += sum((unit[0] - y) * (unit[2] - c) for unit in one)
        across += sum((unit[2] - c) ** 2 for unit in one)
    return along / across


def test_the_past_of_a_ratio_goes_along_with_what_a_unit_is_off_it() -> None:
    chance = Random(6)
    units = []
    for _ in range(400):
        size, own = chance.randint(1, 20), chance.gauss(5, 1)
        units.append((size * own + chance.gauss(0, 1), size, size * (own - 5)))
    (found,) = adjust((sum_units(units),))
    assert found.reduction is not None
    assert found.reduction > 0.8


def test_a_past_that_is_the_same_for_all_or_unknown_changes_nothing() -> None:
    arms = (values(1, 2, 3), values(2, 3, 4))
    same = tuple(sum_units([(y, 1, 8) for y in units]) for units in ((1, 2, 3), (2, 3, 4)))
    assert adjust(arms) == adjust(same) == tuple(estimate(one) for one in arms)
    assert adjust((NO_UNITS, values(3))) == (Mean(0, None, None), Mean(1, 3.0, None))
    assert adjust((NO_UNITS,)) == (Mean(0, None, None),)

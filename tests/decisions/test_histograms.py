"""Histograms that merge exactly, and percentiles that know when they are guesses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.decisions.histograms import (
    ENOUGH_SAMPLES,
    GROWTH,
    bucket_of,
    merged,
    percentile,
    value_of,
)

ERROR = (GROWTH - 1) / (GROWTH + 1)
"""Half a bucket, by ratio: 2.44 %."""


def counted(*values: float) -> dict[int, int]:
    return merged({bucket_of(value): 1} for value in values)


@given(st.floats(min_value=0.001, max_value=1e8))
def test_a_bucket_stands_for_each_of_its_values_within_the_error(value: float) -> None:
    assert value_of(bucket_of(value)) == pytest.approx(value, rel=ERROR * 1.001 / (1 - ERROR))


def test_a_percentile_is_of_all_requests_and_no_average_of_the_workers_percentiles() -> None:
    first = counted(*[100.0] * 50)
    second = counted(*[100.0] * 40, *[1000.0] * 10)
    whole = merged([first, second])
    assert sum(whole.values()) == 100
    assert percentile(whole, 0.95) == pytest.approx(1000, rel=ERROR)
    assert percentile(whole, 0.5) == pytest.approx(100, rel=ERROR)
    assert percentile(whole, 0.99) == pytest.approx(1000, rel=ERROR)


def test_of_five_requests_the_tail_is_not_known() -> None:
    five = counted(1.0, 2.0, 3.0, 4.0, 500.0)
    assert percentile(five, 0.95) is None
    assert percentile(five, 0.99) is None
    assert percentile(five, 0.5) == pytest.approx(3.0, rel=ERROR)


@pytest.mark.parametrize(("share", "enough"), ENOUGH_SAMPLES.items())
def test_one_sample_too_few_is_none_and_enough_are_a_value(share: float, enough: int) -> None:
    assert percentile(counted(*[7.0] * (enough - 1)), share) is None
    assert percentile(counted(*[7.0] * enough), share) == pytest.approx(7.0, rel=ERROR)


def test_nothing_counted_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None
    assert percentile({}, 0.75) is None


@given(st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=100, max_size=200))
def test_the_nearest_rank_is_read_within_the_error(values: list[float]) -> None:
    ordered, histogram = sorted(values), counted(*values)
    for percent in (50, 95, 99):
        exact = ordered[-(-percent * len(values) // 100) - 1]
        read = percentile(histogram, percent / 100)
        assert read == pytest.approx(exact, rel=ERROR * 1.001 / (1 - ERROR))


@given(st.lists(st.lists(st.floats(min_value=0.01, max_value=1e6), max_size=20), max_size=5))
def test_merging_is_as_if_one_had_counted_all(parts: list[list[float]]) -> None:
    together = counted(*(value for part in parts for value in part))
    assert merged(counted(*part) for part in parts) == together


def test_durations_of_nothing_count_as_the_smallest() -> None:
    assert bucket_of(0.0) == bucket_of(-1.0) == bucket_of(1e-6)

"""The pure arithmetic of live figures."""

import random

import pytest

from controlplane.decisions.live_series import (
    Tally,
    means,
    rates_of,
    tally_of,
    trailing_percentiles,
)
from inference.decisions.histograms import merged, percentile
from tests.controlplane.live.facts import histogram


def test_windows_that_slide_read_as_if_each_were_merged_anew() -> None:
    chance = random.Random(7)
    histograms = {
        number: histogram(*(chance.lognormvariate(5, 1) for _ in range(chance.randrange(9))))
        for number in range(60)
    }
    bins, window = range(20, 60), 12
    found = trailing_percentiles(histograms, bins, window, set(bins) - {33})
    for share, values in found.items():
        expected = [
            None
            if number == 33
            else percentile(
                merged(histograms[one] for one in range(number - 11, number + 1)), share
            )
            for number in bins
        ]
        assert list(values) == expected


def test_less_than_a_second_of_a_bucket_counts_as_one() -> None:
    rates = rates_of(Tally(requests=3), 0.2)
    assert rates is not None
    assert rates.requests_per_s == 3.0
    assert rates_of(Tally(requests=3), 0.0) is None


@pytest.mark.parametrize(
    ("tally", "cost", "tokens"),
    [
        (Tally(), 0.0, 0.0),
        (Tally(requests=2, unknown_cost=2, unknown_usage=2), None, None),
        (Tally(requests=2, unknown_cost=1), 0.0, 0.0),
        (Tally(cost_nanousd=1, prompt_tokens=3), 3_600.0, 3.0),
    ],
)
def test_money_and_tokens_are_unknown_only_if_all_of_them_are(
    tally: Tally, cost: float | None, tokens: float | None
) -> None:
    rates = rates_of(tally, 1.0)
    assert rates is not None
    assert (rates.cost_nanousd_per_hour, rates.prompt_tokens_per_s) == (cost, tokens)


def test_tallies_add_up_and_leave_their_parts_as_they_were() -> None:
    parts = [
        Tally(requests=1, failures={"timeout": 1}, first_token_ms={5: 2}),
        Tally(requests=2, failures={"refused": 1}, first_token_ms={5: 1, 7: 1}),
    ]
    for _ in range(2):
        total = tally_of(parts)
        assert (total.requests, total.failed, total.failure_share) == (3, 2, 2 / 3)
        assert total.first_token_ms == {5: 3, 7: 1}


def test_a_mean_is_of_what_was_measured() -> None:
    assert means({1: (6.0, 3), 3: (0.0, 2)}, range(1, 4)) == (2.0, None, 0.0)

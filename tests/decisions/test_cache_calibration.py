"""How sure a rate of false hits is, and which threshold holds a limit: exact values."""

import pytest

from controlplane.decisions.cache_calibration import (
    LEAST_CHECKS,
    Steps,
    raised_by_complaint,
    raised_threshold,
    rate_from,
    rate_of,
)


@pytest.mark.parametrize(
    ("false_hits", "checks", "low", "high"),
    [
        # Wilson's score interval, to be had of any table of it
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (5, 412, 0.0052, 0.0281),
    ],
)
def test_a_rate_has_wilsons_interval(false_hits: int, checks: int, low: float, high: float) -> None:
    rate = rate_of(false_hits, checks)
    assert (rate.low, rate.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert rate.share == false_hits / checks


def test_no_checks_are_no_rate() -> None:
    rate = rate_of(0, 0)
    assert (rate.share, rate.low, rate.high) == (None, 0.0, 1.0)


def steps(agreed: dict[int, int], differed: dict[int, int]) -> Steps:
    return {
        **{(step, "agreed"): n for step, n in agreed.items()},
        **{(step, "differed"): n for step, n in differed.items()},
    }


def test_only_checks_at_or_above_the_threshold_count() -> None:
    found = steps({92: 50, 95: 50}, {91: 40, 92: 10})
    assert (rate_from(found, 92).false_hits, rate_from(found, 92).checks) == (10, 110)
    assert rate_from(found, 93).false_hits == 0


def test_a_threshold_that_is_surely_too_low_goes_to_the_least_that_holds() -> None:
    found = steps({92: 100, 94: 500, 96: 500}, {92: 30, 94: 1})
    raised = raised_threshold(found, 0.92, 0.01)
    assert raised is not None
    assert raised.similarity_min == 0.93
    assert (raised.rate.false_hits, raised.rate.checks) == (31, 1_131)


def test_where_too_few_checks_lie_so_high_it_goes_above_every_false_hit() -> None:
    raised = raised_threshold(steps({92: 20, 96: 3}, {92: 5, 93: 2}), 0.92, 0.01)
    assert raised is not None
    assert raised.similarity_min == 0.94


def test_it_goes_by_two_steps_at_a_time() -> None:
    found = steps({92: 30, 97: 30}, {92: 5, 96: 30})
    raised = raised_threshold(found, 0.92, 0.01)
    assert raised is not None
    assert raised.similarity_min == 0.94
    raised = raised_threshold(found, 0.94, 0.01)
    assert raised is not None
    assert raised.similarity_min == 0.96


def test_it_never_passes_one_and_stays_there() -> None:
    raised = raised_threshold(steps({}, {100: 30}), 0.99, 0.01)
    assert raised is not None
    assert raised.similarity_min == 1.0
    assert raised_threshold(steps({}, {100: 30}), 1.0, 0.01) is None


@pytest.mark.parametrize(
    "found",
    [
        {},
        # too few to say anything
        steps({92: LEAST_CHECKS - 4}, {92: 3}),
        # two may have erred, surely as it passes the limit
        steps({92: 18}, {99: 2}),
        # more than the limit, but by chance as likely as not
        steps({92: 99}, {92: 2}),
        # all below the threshold
        steps({92: 100}, {90: 50}),
    ],
)
def test_without_a_sure_reason_it_stays(found: Steps) -> None:
    assert raised_threshold(found, 0.92, 0.01) is None


def test_one_persons_word_raises_by_one_step_where_it_would_have_been_served() -> None:
    assert raised_by_complaint(0.92, 0.97) == 0.93
    assert raised_by_complaint(0.92, 0.92) == 0.93
    assert raised_by_complaint(0.92, 0.91) is None
    assert raised_by_complaint(1.0, 1.0) is None

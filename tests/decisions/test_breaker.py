"""When a worker is left alone, for how long, and how it is taken back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import BreakerState
from inference.decisions.breaker import (
    CLOSED,
    Breaker,
    BreakerPolicy,
    Capacity,
    Counts,
    Verdict,
    after_attempt,
    after_trial,
    begin_trial,
    capacity_of,
    lets_through,
    policy_of,
    set_aside,
    shown_state,
)
from tests.inference.gateway.rig import pool_record

POLICY = BreakerPolicy(failure_percent=50, min_requests=5, open_s=5.0)
NOW = 100.0


def after(counts: Counts, *, policy: BreakerPolicy = POLICY, u: float = 0.0) -> Breaker:
    return after_attempt(CLOSED, counts, policy=policy, now=NOW, u=u)


def test_a_pool_says_when_its_breakers_open() -> None:
    assert policy_of(pool_record("a")) == POLICY


@pytest.mark.parametrize(
    ("attempts", "failures", "is_open"),
    [
        (1, 1, False),  # one failure of one is no hundred per cent
        (4, 4, False),
        (5, 2, False),
        (5, 3, True),
        (6, 3, True),
        (100, 49, False),
        (100, 50, True),
    ],
)
def test_it_opens_on_a_share_of_failures_among_enough_attempts(
    attempts: int, failures: int, is_open: bool
) -> None:
    breaker = after(Counts(attempts, failures))
    assert breaker.state is (BreakerState.OPEN if is_open else BreakerState.CLOSED)


def test_three_failed_connections_in_a_row_open_it_whatever_the_share() -> None:
    assert after(Counts(100, 2, unreachable_in_a_row=2)) is CLOSED
    assert after(Counts(100, 3, unreachable_in_a_row=3)) == Breaker(BreakerState.OPEN, 105.0, 1)


def test_open_it_lets_nothing_through_until_its_time_is_over() -> None:
    breaker = after(Counts(5, 5))
    assert breaker == Breaker(BreakerState.OPEN, open_until=105.0, openings=1)
    assert not lets_through(breaker, 104.99)
    assert lets_through(breaker, 105.0)
    assert lets_through(CLOSED, NOW)


def test_half_open_it_lets_one_trial_through_and_nothing_beside_it() -> None:
    trial = begin_trial(after(Counts(5, 5)))
    assert trial.state is BreakerState.HALF_OPEN
    assert not lets_through(trial, 1_000.0)


@pytest.mark.parametrize("verdict", [Verdict.GOOD, Verdict.WORKING])
def test_a_good_trial_closes_it(verdict: Verdict) -> None:
    trial = begin_trial(after(Counts(5, 5)))
    assert after_trial(trial, verdict, policy=POLICY, now=106.0, u=0.0) is CLOSED


@pytest.mark.parametrize("verdict", [Verdict.BAD, Verdict.UNREACHABLE])
def test_a_bad_trial_opens_it_for_twice_as_long(verdict: Verdict) -> None:
    trial = begin_trial(after(Counts(5, 5)))
    again = after_trial(trial, verdict, policy=POLICY, now=106.0, u=0.0)
    assert again == Breaker(BreakerState.OPEN, open_until=116.0, openings=2)


def test_a_trial_that_could_not_tell_leaves_the_next_attempt_to_be_one() -> None:
    trial = begin_trial(after(Counts(5, 5)))
    waiting = after_trial(trial, Verdict.UNKNOWN, policy=POLICY, now=106.0, u=0.0)
    assert waiting == Breaker(BreakerState.OPEN, open_until=105.0, openings=1)
    assert lets_through(waiting, 106.0)


@pytest.mark.parametrize(
    ("open_s", "expected"),
    [
        (5.0, [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]),
        (0.1, [0.1, 0.2, 0.4, 0.8, 1.2, 1.2]),
        (40.0, [40.0, 60.0, 60.0, 60.0, 60.0, 60.0]),
        (600.0, [600.0] * 6),
    ],
)
def test_it_stays_open_twice_as_long_each_time_up_to_a_bound(
    open_s: float, expected: list[float]
) -> None:
    policy = replace(POLICY, open_s=open_s)
    breaker, found = CLOSED, []
    for _ in expected:
        breaker = after_trial(breaker, Verdict.BAD, policy=policy, now=0.0, u=0.0)
        found.append(round(breaker.open_until, 9))
    assert found == expected


def test_chance_keeps_gateways_from_trying_again_together() -> None:
    assert after(Counts(5, 5), u=0.5).open_until == pytest.approx(NOW + 5.25)


def test_what_began_before_it_opened_changes_nothing_any_more() -> None:
    breaker = after(Counts(5, 5))
    for state in (breaker, begin_trial(breaker)):
        later = after_attempt(state, Counts(9, 9, 9), policy=POLICY, now=200.0, u=0.0)
        assert later is state


def test_people_are_told_that_it_waits_for_a_trial() -> None:
    breaker = after(Counts(5, 5))
    assert shown_state(breaker, 104.0) is BreakerState.OPEN
    assert shown_state(breaker, 105.0) is BreakerState.HALF_OPEN
    assert shown_state(CLOSED, NOW) is BreakerState.CLOSED


@given(verdicts=st.lists(st.sampled_from(Verdict), max_size=40))
def test_from_any_state_it_is_closed_again_after_one_good_trial(verdicts: list[Verdict]) -> None:
    breaker, now = after(Counts(5, 5)), NOW
    for verdict in verdicts:
        now += 100.0
        if breaker is CLOSED:
            break
        assert lets_through(breaker, now)
        breaker = after_trial(begin_trial(breaker), verdict, policy=POLICY, now=now, u=0.9)
    if breaker is not CLOSED:
        assert lets_through(breaker, now + 100.0)


@pytest.mark.parametrize(
    ("admitted", "expected"),
    [
        ("abcd", Capacity("abcd")),
        ("ab", Capacity("ab")),
        ("a", Capacity("abcd", is_panic=True)),
        ("", Capacity("abcd", is_panic=True, is_last_resort=True)),
    ],
)
def test_if_too_few_workers_would_be_left_breakers_are_ignored(
    admitted: str, expected: Capacity[str]
) -> None:
    assert capacity_of("abcd", admitted, panic_percent=50) == expected


def test_a_pool_may_never_panic_or_at_once() -> None:
    assert capacity_of("ab", "", panic_percent=0) == Capacity("")
    assert capacity_of("ab", "a", panic_percent=100) == Capacity("ab", is_panic=True)
    assert capacity_of("", "", panic_percent=50) == Capacity("")


def test_those_set_aside_are_for_when_there_is_nobody_else() -> None:
    assert set_aside(Capacity("abc"), "b") == Capacity(("a", "c"), aside=("b",))
    assert set_aside(Capacity("ab", is_panic=True), "abx") == Capacity((), True, aside=("a", "b"))
    assert set_aside(Capacity("ab"), "x") == Capacity("ab")
    dead = Capacity("ab", is_panic=True, is_last_resort=True)
    assert set_aside(dead, "a") is dead

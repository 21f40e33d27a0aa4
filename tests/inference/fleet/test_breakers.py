"""A worker's breaker in one process, and the retry budgets: counted by the second."""

import pytest

from inference.contract.kinds import BreakerState
from inference.decisions.breaker import Breaker, BreakerPolicy, Verdict
from inference.fleet.breakers import WorkerBreaker
from inference.fleet.retries import RetryBudgets
from inference.fleet.sliding import SlidingCounts
from tests.inference.clocks import HandClock


def test_a_window_forgets_by_the_second() -> None:
    counts = SlidingCounts(10)
    counts.add(100.2, marked=1)
    counts.add(100.9)
    counts.add(105.0, marked=1)
    assert (counts.total, counts.marked) == (3, 2)
    counts.advance(109.9)
    assert (counts.total, counts.marked) == (3, 2)
    counts.advance(110.0)
    assert (counts.total, counts.marked) == (1, 1)
    counts.advance(5_000.0)
    assert (counts.total, counts.marked) == (0, 0)


def test_a_window_counts_everything_once_over_many_turns() -> None:
    counts = SlidingCounts(3)
    for second in range(1_000):
        counts.add(float(second), count=2, marked=1)
        assert (counts.total, counts.marked) == (2 * min(second + 1, 3), min(second + 1, 3))


class Watched:
    """A breaker on a clock moved by hand, and the states it went through."""

    def __init__(self, **policy: float) -> None:
        self.clock = HandClock(100.0)
        self.states: list[BreakerState] = []
        settings = {"failure_percent": 50, "min_requests": 5, "open_s": 5.0} | policy
        self.breaker = WorkerBreaker(
            BreakerPolicy(**settings),  # type: ignore[arg-type]
            chance=lambda: 0.0,
            changed=self._note,
        )

    def _note(self, _breaker: WorkerBreaker, _before: Breaker, after: Breaker) -> None:
        self.states.append(after.state)

    def end(self, *verdicts: Verdict, is_trial: bool = False) -> None:
        for verdict in verdicts:
            self.breaker.note_end(verdict, is_trial=is_trial, now_s=self.clock())

    @property
    def lets_through(self) -> bool:
        return self.breaker.lets_through(self.clock())

    def begin(self) -> bool:
        return self.breaker.begin(self.clock())


@pytest.fixture
def open_one() -> Watched:
    watched = Watched()
    watched.end(*[Verdict.BAD] * 5)
    assert watched.breaker.shown(watched.clock()) is BreakerState.OPEN
    return watched


def test_failures_older_than_the_window_do_not_count() -> None:
    watched = Watched()
    watched.end(*[Verdict.BAD] * 4)
    watched.clock.move(10.0)
    watched.end(Verdict.BAD)
    assert watched.states == []
    watched.end(*[Verdict.BAD] * 4)
    assert watched.states == [BreakerState.OPEN]


def test_what_could_not_tell_counts_neither_way() -> None:
    watched = Watched()
    watched.end(*[Verdict.BAD] * 4, *[Verdict.UNKNOWN] * 9)
    assert watched.lets_through


def test_refusals_neither_count_nor_thin_out_the_failures() -> None:
    watched = Watched()
    for _ in range(5):
        watched.end(Verdict.BAD, Verdict.WORKING, Verdict.WORKING)
    assert not watched.lets_through
    watched = Watched()
    watched.end(*[Verdict.UNREACHABLE, Verdict.WORKING] * 3)
    assert not watched.lets_through


def test_connections_must_fail_in_a_row() -> None:
    watched = Watched()
    watched.end(*[Verdict.GOOD] * 9, Verdict.UNREACHABLE, Verdict.UNREACHABLE, Verdict.GOOD)
    watched.end(Verdict.UNREACHABLE, Verdict.UNREACHABLE)
    assert watched.lets_through
    watched.end(Verdict.UNREACHABLE)
    assert not watched.lets_through


def test_one_trial_passes_when_its_time_is_over_and_closes_it(open_one: Watched) -> None:
    assert not open_one.lets_through
    assert not open_one.begin()
    open_one.clock.move(5.0)
    assert open_one.begin()
    assert not open_one.lets_through
    assert not open_one.begin()
    open_one.end(Verdict.GOOD, is_trial=True)
    assert open_one.states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]
    # what was before counts no more
    open_one.end(Verdict.BAD)
    assert open_one.lets_through


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_trial_never_leaves_it_half_open(open_one: Watched, verdict: Verdict) -> None:
    open_one.clock.move(5.0)
    assert open_one.begin()
    open_one.end(verdict, is_trial=True)
    assert open_one.breaker.value.state is not BreakerState.HALF_OPEN
    open_one.clock.move(10.0)
    assert open_one.lets_through


def test_a_trial_that_gives_content_closes_it_before_its_end(open_one: Watched) -> None:
    open_one.clock.move(5.0)
    assert open_one.begin()
    open_one.breaker.note_content(open_one.clock())
    assert open_one.lets_through
    open_one.end(Verdict.BAD)
    assert open_one.lets_through


def test_attempts_that_began_earlier_decide_nothing_while_it_is_open(open_one: Watched) -> None:
    open_one.end(Verdict.GOOD, Verdict.BAD, Verdict.UNREACHABLE)
    open_one.clock.move(5.0)
    assert open_one.begin()
    open_one.end(Verdict.GOOD, Verdict.BAD)
    assert open_one.breaker.value.state is BreakerState.HALF_OPEN


def test_a_route_retries_a_share_of_its_requests_and_no_other_routes() -> None:
    budgets = RetryBudgets()
    for _ in range(50):
        budgets.note_request("rt_a", 100.0)
    taken = [budgets.take("rt_a", budget_percent=20, now_s=101.0) for _ in range(25)]
    assert taken == [True] * 20 + [False] * 5
    assert budgets.take("rt_b", budget_percent=20, now_s=101.0)
    # a route nobody asks for any more is kept for ten seconds and no longer
    budgets.note_request("rt_c", 102.0)
    assert set(budgets._routes) == {"rt_a", "rt_b", "rt_c"}
    # ten seconds after the requests, and eleven after the retries
    assert not budgets.take("rt_a", budget_percent=20, now_s=110.0)
    assert budgets.take("rt_a", budget_percent=20, now_s=111.0)
    budgets.note_request("rt_d", 115.0)
    assert set(budgets._routes) == {"rt_a", "rt_d"}

"""Which breakers are told of, and where too many of them are open to be obeyed."""

import pytest

from controlplane.decisions.breakers import BreakerFacts, breakers_of, last_resort_at, panic_at
from inference.contract.kinds import BreakerState

OPEN, HALF, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def test_the_breakers_of_one_pool_are_told_by_worker_and_process_but_for_closed_ones() -> None:
    told = [
        ("gw-1/1", {"pool_a-1": OPEN, "pool_a-0": HALF, "pool_b-0": OPEN}),
        ("gw-1/0", {"pool_a-1": OPEN, "pool_a-10": CLOSED}),
    ]
    assert breakers_of("pool_a", told) == [
        BreakerFacts("pool_a-0", "gw-1/1", HALF),
        BreakerFacts("pool_a-1", "gw-1/0", OPEN),
        BreakerFacts("pool_a-1", "gw-1/1", OPEN),
    ]


@pytest.mark.parametrize(
    ("is_open", "percent", "is_panic"),
    [(1, 50, False), (2, 50, False), (3, 50, True), (4, 50, False), (4, 0, False), (1, 100, True)],
)
def test_a_process_panics_once_less_than_the_share_would_be_left(
    is_open: int, percent: int, is_panic: bool
) -> None:
    ready = [f"pool_a-{number}" for number in range(4)]
    breakers = [BreakerFacts(one, "gw-1/0", OPEN) for one in ready[:is_open]]
    breakers.append(BreakerFacts("pool_a-3", "gw-1/1", HALF))
    assert panic_at(ready, breakers, percent=percent) == (["gw-1/0"] if is_panic else [])


def test_a_breaker_of_a_worker_that_is_not_ready_makes_no_panic() -> None:
    breakers = [BreakerFacts("pool_a-1", "gw-1/0", OPEN)]
    assert panic_at(["pool_a-0"], breakers, percent=50) == []
    assert panic_at([], breakers, percent=50) == []
    assert last_resort_at(["pool_a-0"], breakers, percent=50) == []
    assert last_resort_at([], breakers, percent=50) == []


@pytest.mark.parametrize(
    ("workers", "percent", "is_last"), [(1, 50, True), (2, 1, True), (1, 0, False)]
)
def test_a_pool_whose_breakers_are_all_open_is_the_last_resort_and_no_panic(
    workers: int, percent: int, is_last: bool
) -> None:
    ready = [f"pool_a-{number}" for number in range(workers)]
    breakers = [BreakerFacts(one, "gw-1/0", OPEN) for one in ready]
    assert panic_at(ready, breakers, percent=percent) == []
    assert last_resort_at(ready, breakers, percent=percent) == (["gw-1/0"] if is_last else [])

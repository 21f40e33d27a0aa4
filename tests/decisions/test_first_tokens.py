"""Which worker answers soonest, and which target costs least."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.decisions.routing.base import Choice, Room, Wish
from inference.decisions.routing.first_tokens import HALF_LIFE_S, expected_s, learned, mean_of
from inference.decisions.routing.strategies import cheapest, lowest_latency
from inference.decisions.routing.strategies.lowest_latency import EXPLORED
from tests.decisions.candidates import Candidate, room, spread


def fastest(rooms: Sequence[Room[Candidate]], *, u: float = 0.5, now_s: float = 0.0) -> str:
    choice = lowest_latency.pick(rooms, wish=Wish(now_s=now_s), u=u)
    assert choice is not None
    return choice.worker.id


def timed(name: str, first_token_s: float | None, **fields: object) -> Candidate:
    return Candidate(name, first_token_s=first_token_s, **fields)  # type: ignore[arg-type]


def test_the_worker_whose_streams_begin_soonest_is_taken() -> None:
    rooms = [room(0, timed("a", 0.3), timed("b", 0.1)), room(1, timed("c", 0.2))]
    assert fastest(rooms) == "b"


def test_what_is_under_way_there_adds_to_it() -> None:
    # a tenth of a second against half a batch
    fast = timed("a", 0.1, inflight=64, concurrency=128)
    assert fastest([room(0, fast, timed("b", 0.5))]) == "b"
    assert fastest([room(0, fast, timed("b", 0.7))]) == "a"


def test_now_and_then_any_worker_is_taken() -> None:
    rooms = [room(0, timed("a", 0.1), timed("b", 9.0))]
    found = Counter(fastest(rooms, u=u) for u in spread(1_000))
    assert found["b"] == 1_000 * EXPLORED / 2


def test_a_bad_sample_fades_into_what_the_pool_takes() -> None:
    slow, others = timed("a", 2.1), [timed("b", 0.1), timed("c", 0.1)]
    mean = mean_of([slow, *others])
    assert mean == pytest.approx(2.3 / 3)
    seen = [expected_s(slow, mean_s=mean, now_s=half * HALF_LIFE_S) for half in range(12)]
    assert seen == sorted(seen, reverse=True)
    assert seen[0] == 2.1
    assert seen[1] - mean == pytest.approx((seen[0] - mean) / 2)
    assert seen[-1] == pytest.approx(mean, abs=0.01)


def test_a_worker_without_a_sample_is_taken_for_an_average_one() -> None:
    assert fastest([room(0, timed("a", 0.1), timed("new", None), timed("b", 0.9))]) == "a"
    assert fastest([room(0, timed("new", None), timed("b", 0.9), timed("c", 0.9))], u=0.1) == "new"
    # of a pool nobody has heard of, it is like the other pools'
    assert fastest([room(0, timed("a", 0.5)), room(1, timed("new", None))], u=0.1) == "a"


def test_without_any_sample_the_least_wait_decides() -> None:
    assert fastest([room(0, Candidate("a", inflight=1), Candidate("b"))]) == "b"


def test_the_choice_says_what_was_expected() -> None:
    rooms = [room(0, timed("a", 0.25), timed("b", 0.5))]
    for u, is_explored in ((0.01, True), (0.5, False)):
        choice = lowest_latency.pick(rooms, wish=Wish(), u=u)
        assert choice is not None
        assert choice.terms == {"first_token_s": 0.25, "is_explored": is_explored}
        assert (choice.u, choice.candidates) == (u, 2)


def test_one_slow_stream_says_less_than_one_fast_one() -> None:
    assert learned(None, 0.5) == 0.5
    assert learned(0.5, 0.1) == pytest.approx(0.3)
    assert learned(0.5, 1.0) == pytest.approx(0.6)
    # a hiccup of a minute counts like one of four times the usual
    assert learned(0.5, 60.0) == learned(0.5, 2.0) == pytest.approx(0.8)


@given(st.lists(st.floats(0.0, 1_000.0), min_size=1, max_size=50))
def test_what_is_learned_stays_within_what_was_seen_and_finds_its_way(samples: list[float]) -> None:
    known = None
    for sample in samples:
        known = learned(known, sample)
    assert known is not None
    assert min(samples) * 0.999 <= known <= max(*samples, 0.001) * 1.001
    for _ in range(400):
        known = learned(known, 0.5)
    assert known == pytest.approx(0.5, rel=1e-3)


def priced(costs: dict[str, int | None], **busy: int) -> list[Room[Candidate]]:
    """A room of one worker for each price, so many requests under way there."""
    return [
        replace(room(place, Candidate(name, inflight=busy.get(name, 0))), cost_max_nanousd=cost)
        for place, (name, cost) in enumerate(costs.items())
    ]


def cheap(rooms: Sequence[Room[Candidate]], u: float = 0.0) -> Choice[Candidate]:
    choice = cheapest.pick(rooms, wish=Wish(), u=u)
    assert choice is not None
    return choice


def test_the_lowest_known_price_is_taken_however_busy() -> None:
    choice = cheap(priced({"a": 30, "b": 10, "c": None}, b=99))
    assert (choice.worker.id, choice.terms) == ("b", {"cost_max_nanousd": 10})


def test_free_is_the_lowest_price_and_an_unknown_one_comes_last() -> None:
    assert cheap(priced({"a": None, "b": 1, "c": 0})).worker.id == "c"
    assert cheap(priced({"a": None, "b": 2**62})).worker.id == "b"
    assert cheap(priced({"a": None})).worker.id == "a"


def test_equal_prices_go_by_wait() -> None:
    assert cheap(priced({"a": 10, "b": 10, "c": 20}, a=1)).worker.id == "b"
    # unknown ones are equal to each other
    assert cheap(priced({"a": None, "b": None}, a=1)).worker.id == "b"

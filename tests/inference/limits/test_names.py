"""Names that callers write: so many are counted apart, and no more, until their window is over."""

import pytest
from prometheus_client import CollectorRegistry

from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import LimitRecord
from inference.decisions.admission import Bearing, is_by_name
from inference.limits import limiter as limiters
from inference.limits.counted import counter_of
from inference.limits.limiter import make_limiter
from inference.limits.names import MOST_TIMES, Names
from tests.inference.clocks import HandClock
from tests.inference.gateway.rig import TOKEN, configuration, key_record, pool_record

USERS = ("u0", "u1", "u2", "u3", "u0")


def limit(name: str = "a", window: LimitWindow | None = LimitWindow.MINUTE) -> LimitRecord:
    subject, unit = LimitSubject.END_USER, LimitUnit.REQUESTS
    return LimitRecord(f"lim_{name}", "org_a", name, subject, unit, 5, None, window)


def test_so_many_are_apart_and_the_rest_is_not_until_the_window_is_over() -> None:
    clock = HandClock(100.0)
    names = Names(stopwatch=clock, most=3)

    for key_id, one in (("k", limit()), ("l", limit()), ("k", limit("b", window=None))):
        apart = [names.is_apart(one, key_id, user) for user in USERS]
        assert apart == [True, True, True, False, True]
    assert len(names) == 9
    clock.move(59.0)
    assert not names.is_apart(limit(), "k", "u3")
    clock.move(1.0)
    assert names.is_apart(limit(), "k", "u3")
    assert not names.is_apart(limit("b", window=None), "k", "u3")
    clock.move(3_600.0)
    assert names.is_apart(limit("b", window=None), "k", "u3")


def test_those_of_many_keys_are_bounded_together_until_a_window_is_over() -> None:
    clock = HandClock(0.0)
    names = Names(stopwatch=clock, most=3)
    most = 3 * MOST_TIMES
    days = limit("b", window=LimitWindow.DAY)
    apart = [names.is_apart(days, f"k{n}", user) for n in range(MOST_TIMES - 1) for user in "abc"]
    apart += [names.is_apart(limit(), "k", user) for user in "abc"]
    assert (all(apart), len(names)) == (True, most)
    assert not names.is_apart(limit(), "another", "a")
    assert names.is_apart(days, "k0", "a")
    clock.move(60.0)
    assert [names.is_apart(days, "another", user) for user in "abcd"] == [True, True, True, False]
    assert len(names) == most


def test_keys_that_send_nothing_any_more_are_forgotten() -> None:
    clock = HandClock(0.0)
    names = Names(stopwatch=clock, most=3)
    for number in range(1_000):
        names.is_apart(limit(), f"k{number}", "u")
        clock.move(1.0)
    assert len(names) <= 62
    clock.move(60.0)
    for number in range(10):
        names.is_apart(limit("b"), f"k{number}", "u")
    assert len(names) == 10


def test_what_is_shared_is_nobodys_own_counter() -> None:
    shared = counter_of(Bearing(limit(), "u9"), shared_by="k")
    assert shared == counter_of(Bearing(limit(), "u8"), shared_by="k")
    others = [
        counter_of(Bearing(limit(), "k")),
        counter_of(Bearing(limit(), "u9")),
        counter_of(Bearing(limit(), "u9"), shared_by="other key"),
        counter_of(Bearing(limit("b"), "u9"), shared_by="k"),
    ]
    assert shared.key not in {one.key for one in others}
    assert shared.amount == 5


def test_counters_of_names_that_share_another_limit_are_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limiters, "_MOST_COUNTERS", 20)
    clock = HandClock(0.0)
    limiter = make_limiter(CollectorRegistry(), stopwatch=clock, most_end_users=3)
    limits = (limit(), limit("b", window=LimitWindow.DAY))
    limiter.apply_snapshot(configuration(pool_record("a", "http://a"), limits=limits))
    key, most = key_record(TOKEN), 0
    for number in range(200):
        assert limiter.admission("r", key, end_user=f"u{number}", plan=None) is not None
        clock.move(20.0)
        most = max(most, len(limiter._counters))
    assert 10 < most <= 22


def test_only_whoever_callers_may_name_at_will_is_too_many() -> None:
    assert is_by_name(limit())
    named = LimitRecord("lim_n", "org_a", "n", LimitSubject.END_USER, LimitUnit.REQUESTS, 5, "ann")
    of_keys = LimitRecord("lim_k", "org_a", "k", LimitSubject.KEY, LimitUnit.REQUESTS, 5)
    assert not is_by_name(named)
    assert not is_by_name(of_keys)

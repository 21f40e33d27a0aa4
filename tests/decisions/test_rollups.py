"""What ends of requests add to the roll-ups."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.rollups import (
    DayKey,
    HourKey,
    MinuteKey,
    NamedKey,
    RollUps,
    RuleKey,
    Sums,
    cap_named,
    roll_up,
)
from inference.contract.events import Charge, End, Usage
from inference.contract.kinds import ChargeKind, Outcome
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

MINUTE = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


def test_a_request_is_counted_once_and_its_attempts_each_where_they_ran() -> None:
    failed = make_charge(pool_id="pool_2", kind=ChargeKind.ESTIMATED, usage=Usage(), cost_nanousd=0)
    sums = dict(roll_up([make_end(charges=(failed, make_charge(attempt=2)))]).minutes)
    assert sums == {
        MinuteKey("org_a", MINUTE, "rt_1", "pool_1", "mdl_1", "proj_1"): Sums(
            requests=1,
            attempts=1,
            prompt_tokens=1_846,
            completion_tokens=182,
            cached_tokens=1_024,
            cost_nanousd=487_200,
        ),
        MinuteKey("org_a", MINUTE, "rt_1", "pool_2", "mdl_1", "proj_1"): Sums(
            attempts=1, unknown_usage=1
        ),
    }


def test_a_refusal_counts_without_pool_or_model() -> None:
    refused = make_end(charges=(), outcome=Outcome.REFUSED, http_status=404)
    sums = dict(roll_up([refused]).minutes)
    assert sums == {MinuteKey("org_a", MINUTE, "rt_1", "", "", "proj_1"): Sums(requests=1)}


def test_a_refusal_for_want_of_capacity_is_an_error() -> None:
    refused = make_end(charges=(), outcome=Outcome.REFUSED, http_status=503)
    ((_, sums),) = roll_up([refused]).minutes
    assert sums == Sums(requests=1, errors=1)


def test_a_lost_gateway_is_an_error_and_a_missing_price_is_counted_not_added() -> None:
    unpriced = make_charge(usage=Usage(), price=None, cost_nanousd=None, cost_max_nanousd=None)
    lost = make_end(charges=(unpriced,), outcome=Outcome.LOST_GATEWAY)
    ((_, sums),) = roll_up([lost]).minutes
    assert sums == Sums(requests=1, errors=1, attempts=1, unknown_usage=1, unknown_cost=1)


def test_rules_count_the_requests_they_took_whatever_became_of_them() -> None:
    by_rule = make_origin(rule_id="rule_1")
    twice = (make_charge(), make_charge(attempt=2))
    ends = [
        make_end(1, origin=by_rule, charges=twice),
        make_end(2, origin=by_rule, charges=(), outcome=Outcome.REFUSED, http_status=503),
        make_end(3),
    ]
    assert roll_up(ends).rules == ((RuleKey("org_a", MINUTE, "rt_1", "rule_1"), 2),)


def test_days_are_summed_by_every_dimension() -> None:
    days = dict(roll_up([make_end(1), make_end(2)]).days)
    assert {(key.dimension, key.value) for key in days} == {
        ("route", "rt_1"),
        ("pool", "pool_1"),
        ("model", "mdl_1"),
        ("project", "proj_1"),
        ("team", "team_1"),
        ("key", "01jdkey00000000000000000a"),
    }
    assert (
        days[DayKey("org_a", date(2026, 11, 24), "team", "team_1", "proj_1")].cost_nanousd
        == 974_400
    )


def test_increments_come_in_the_order_in_which_locks_are_taken() -> None:
    ends = [make_end(n, charges=(make_charge(pool_id=f"pool_{9 - n}"),)) for n in range(9)]
    increments = roll_up(ends)
    assert [key for key, _ in increments.minutes] == sorted(key for key, _ in increments.minutes)
    assert [key for key, _ in increments.days] == sorted(key for key, _ in increments.days)
    assert [key for key, _ in increments.hours] == sorted(key for key, _ in increments.hours)


@pytest.mark.parametrize(
    ("zone", "at", "hour", "day"),
    [
        ("UTC", "2026-11-24T23:45", "2026-11-24T23:00", date(2026, 11, 24)),
        ("Asia/Kolkata", "2026-11-24T18:45", "2026-11-24T18:30", date(2026, 11, 25)),
        ("Asia/Kathmandu", "2026-11-24T18:10", "2026-11-24T17:15", date(2026, 11, 24)),
        ("America/New_York", "2026-11-01T05:30", "2026-11-01T05:00", date(2026, 11, 1)),
        ("America/New_York", "2026-11-01T06:30", "2026-11-01T06:00", date(2026, 11, 1)),
        ("America/New_York", "2026-11-02T04:59", "2026-11-02T04:00", date(2026, 11, 1)),
        ("Europe/Berlin", "2026-03-29T01:10", "2026-03-29T01:00", date(2026, 3, 29)),
        ("Australia/Lord_Howe", "2026-10-03T15:40", "2026-10-03T15:00", date(2026, 10, 4)),
    ],
)
def test_hours_and_days_are_those_of_the_organisations_clock(
    zone: str, at: str, hour: str, day: date
) -> None:
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    end = make_end(at_ms=int(moment.timestamp() * 1000))
    found = roll_up([end], {"org_a": ZoneInfo(zone)})
    assert {key.day for key, _ in found.days} == {day}
    assert {key.hour for key, _ in found.hours} == {
        datetime.fromisoformat(hour).replace(tzinfo=UTC)
    }


DAY = date(2026, 11, 24)
KEY = "01jdkey00000000000000000a"


def test_several_tags_count_each_and_what_is_counted_again_is_taken_out() -> None:
    tagged = make_end(origin=make_origin(tags=("a", "b", "c"), end_user="ann"))
    named = dict(roll_up([tagged, make_end(2)]).named)
    costs = {(key.dimension, key.kind, key.value): sums.cost_nanousd for key, sums in named.items()}
    assert costs == {
        ("end_user", "named", "ann"): 487_200,
        ("tag", "named", "a"): 487_200,
        ("tag", "named", "b"): 487_200,
        ("tag", "named", "c"): 487_200,
        ("tag", "repeated", ""): -974_400,
    }


def test_what_has_no_room_is_summed_as_the_rest_of_its_key() -> None:
    ends = [make_end(n, origin=make_origin(end_user=f"user-{n}")) for n in range(3)]
    named = roll_up(ends).named
    refused = frozenset(key for key, _ in named if key.value != "user-0")
    kept = {key: sums.requests for key, sums in cap_named(named, refused)}
    assert kept == {
        NamedKey("org_a", DAY, "end_user", KEY, "named", "user-0", "proj_1"): 1,
        NamedKey("org_a", DAY, "end_user", KEY, "other", "", "proj_1"): 2,
    }


def test_hours_are_of_a_project_each() -> None:
    ends = [make_end(1), make_end(2, origin=make_origin(project_id="proj_2"))]
    hours = {key: sums.requests for key, sums in roll_up(ends).hours if key.dimension == "route"}
    hour = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert hours == {
        HourKey("org_a", hour, "route", "rt_1", "proj_1"): 1,
        HourKey("org_a", hour, "route", "rt_1", "proj_2"): 1,
    }


charges = st.builds(
    make_charge,
    pool_id=st.sampled_from(["pool_1", "pool_2"]),
    usage=st.builds(Usage, st.none() | st.integers(0, 99), st.none() | st.integers(0, 99)),
    cost_nanousd=st.none() | st.integers(0, 10**9),
)
ends = st.builds(
    lambda made, outcome: make_end(charges=tuple(made), outcome=outcome),
    st.lists(charges, max_size=3),
    st.sampled_from(list(Outcome)),
)


@given(st.lists(ends, max_size=6))
def test_sums_of_every_dimension_equal_the_sums_of_the_requests(made: list[End]) -> None:
    increments = roll_up(made)
    paid = [charge for end in made for charge in end.charges]
    expected = (len(made), len(paid), _booked(paid))
    assert _totals(increments, None) == expected
    for dimension in ("route", "pool", "model", "project", "team", "key"):
        assert _totals(increments, dimension) == expected


def _booked(paid: list[Charge]) -> int:
    return sum(charge.cost_nanousd or 0 for charge in paid)


def _totals(increments: RollUps, dimension: str | None) -> tuple[int, int, int]:
    found = [
        sums
        for key, sums in (increments.minutes if dimension is None else increments.days)
        if dimension is None or key.dimension == dimension
    ]
    return (
        sum(one.requests for one in found),
        sum(one.attempts for one in found),
        sum(one.cost_nanousd for one in found),
    )

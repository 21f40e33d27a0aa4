"""How budgets stand, where they go, what they would have done; periods over odd nights."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from controlplane.decisions.budget_deltas import missed, seeding, twice
from controlplane.decisions.budget_sums import bucket_of, definition_of, previous_period
from controlplane.decisions.budgets import (
    BudgetState,
    Forecast,
    Past,
    balance_of,
    budget_words,
    forecast_of,
    look_back,
    reached_at,
    scopes_words,
)
from controlplane.decisions.catching_up import GONE_S, laggards, marks_of
from inference.contract.kinds import BudgetAction, BudgetPeriod, BudgetSubject, ProcessRole
from inference.contract.snapshot import BudgetRecord, BudgetScope
from inference.contract.vitals import Applied, Traffic, Vitals
from inference.decisions.budgets import Period, period_of

DAY = 86_400


def budget(**changes: Any) -> BudgetRecord:
    values: dict[str, Any] = {
        "id": "bud_a",
        "organisation_id": "org_a",
        "name": "a",
        "scopes": (BudgetScope(BudgetSubject.ORGANISATION),),
        "amount_nanousd": 1_000,
        "period": BudgetPeriod.DAY,
    }
    return BudgetRecord(**(values | changes))


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("kind", "zone", "moment", "starts", "ends"),
    [
        # a night of 23 hours and one of 25
        ("day", "Europe/Copenhagen", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("day", "Europe/Copenhagen", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),
        # clocks change by half an hour, and an offset of three quarters
        ("day", "Australia/Lord_Howe", "2026-04-05T12:00", "2026-04-04T13:00", "2026-04-05T13:30"),
        ("month", "Asia/Kathmandu", "2027-02-10T00:00", "2027-01-31T18:15", "2027-02-28T18:15"),
        # midnight is skipped: the day begins at one
        ("day", "Asia/Beirut", "2026-03-29T12:00", "2026-03-28T22:00", "2026-03-29T21:00"),
        # made at the end of a long month, and in a leap year
        ("month", "UTC", "2026-01-31T10:00", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("month", "Pacific/Apia", "2028-02-29T23:59", "2028-01-31T11:00", "2028-02-29T11:00"),
        ("week", "America/St_Johns", "2026-11-01T12:00", "2026-10-26T02:30", "2026-11-02T03:30"),
        (
            "quarter",
            "Europe/Copenhagen",
            "2026-12-31T23:59",
            "2026-09-30T22:00",
            "2026-12-31T23:00",
        ),
        ("hour", "Asia/Kathmandu", "2026-05-05T10:20", "2026-05-05T04:00", "2026-05-05T05:00"),
    ],
)
def test_periods_are_the_calendars(
    kind: str, zone: str, moment: str, starts: str, ends: str
) -> None:
    found = period_of(BudgetPeriod(kind), ZoneInfo(zone), at(moment, zone))
    assert (found.starts_s, found.ends_s) == (at(starts), at(ends))
    before = previous_period(budget(period=BudgetPeriod(kind)), ZoneInfo(zone), found)
    assert before.ends_s == found.starts_s
    assert period_of(BudgetPeriod(kind), ZoneInfo(zone), before.starts_s) == before


def stands(spent: int, reserved: int | None = 0, **changes: Any) -> tuple[Any, ...]:
    found = balance_of(
        budget(**changes), [50, 80], spent_nanousd=spent, reserved_nanousd=reserved, now_s=50.0
    )
    return found.state, found.left_nanousd, found.used_percent, found.threshold_percent


@pytest.mark.parametrize(
    ("told", "changes", "expected"),
    [
        ((0,), {}, (BudgetState.OK, 1_000, 0.0, None)),
        ((500,), {}, (BudgetState.THRESHOLD, 500, 50.0, 50)),
        ((900, None), {}, (BudgetState.THRESHOLD, 100, 90.0, 80)),
        ((900, 100), {}, (BudgetState.BLOCKED, 0, 90.0, 80)),
        ((1_000,), {"grace_percent": 10}, (BudgetState.THRESHOLD, 100, 100.0, 80)),
        ((1_100,), {"grace_percent": 10}, (BudgetState.BLOCKED, 0, 110.0, 80)),
        ((1_200,), {"action": BudgetAction.NOTIFY}, (BudgetState.OVER, 0, 120.0, 80)),
        (
            (1_200,),
            {"raised_to_nanousd": 2_000, "raised_until": 51.0},
            (BudgetState.THRESHOLD, 800, 60.0, 50),
        ),
        (
            (1_200,),
            {"raised_to_nanousd": 2_000, "raised_until": 50.0},
            (BudgetState.BLOCKED, 0, 120.0, 80),
        ),
        ((0,), {"amount_nanousd": 0}, (BudgetState.BLOCKED, 0, None, None)),
        ((2_000,), {"is_enabled": False}, (BudgetState.OFF, 0, 200.0, 80)),
    ],
)
def test_how_an_account_stands(
    told: tuple[int, ...], changes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert stands(*told, **changes) == expected


def forecast(buckets: list[tuple[int, int]], now_s: float, amount: int = 1_000) -> Forecast | None:
    spent = sum(one for _, one in buckets)
    return forecast_of(
        BudgetPeriod.DAY,
        Period(0, DAY),
        buckets,
        spent_nanousd=spent,
        amount_nanousd=amount,
        now_s=now_s,
    )


def test_an_even_pace_is_a_line_with_no_room_beside_it() -> None:
    even = [(hour * 3_600, 100) for hour in range(6)]
    assert forecast(even, DAY / 4) == Forecast(2_400, 2_400, 2_400, 36_000)
    assert forecast(even, DAY / 4, amount=2_401) == Forecast(2_400, 2_400, 2_400, None)
    assert forecast([], 0) is None
    assert forecast([], DAY / 4) == Forecast(0, None, None, None)


def test_an_uneven_pace_has_an_interval_that_never_goes_below_what_is_spent() -> None:
    burst = [(0, 600)]
    found = forecast(burst, DAY / 4)
    assert found is not None
    assert found.at_end_nanousd == 2_400
    # six hours of which one had all: sd 244.9; sqrt(18 + 18*18/6) = 8.485; times 1.2816
    assert found.low_nanousd == 600
    assert found.high_nanousd == 2_400 + round(1.2816 * (60_000**0.5) * (72**0.5))
    early = forecast(burst, 3 * 3_600)
    assert early is not None
    assert (early.at_end_nanousd, early.low_nanousd) == (4_800, None)


def test_a_period_that_is_over_says_who_would_have_reached_it_and_by_when() -> None:
    buckets = [(0, 300), (900, 300), (1_800, 400)]
    assert reached_at(buckets, 600, length_s=900) == 1_800
    assert reached_at(buckets, 1_001, length_s=900) is None
    accounts = [(1_000, buckets), (700, [(1_800, 700)]), (10, [])]
    assert look_back(accounts, 600, length_s=900) == Past(3, 2, 1_800, 1_710, 1_000)
    # what isn't told by time is told without
    assert look_back([(700, [])], 600, length_s=900) == Past(1, 1, None, 700, 700)
    assert look_back([], 0, length_s=900) == Past(0, 0, None, 0, 0)


def test_words() -> None:
    scopes = [
        {"subject": "organisation", "subject_id": None},
        {"subject": "end_user", "subject_id": None},
        {"subject": "team", "subject_id": "team_1"},
    ]
    about = scopes_words(scopes, {"team_1": "Support"})
    assert about == "each end user and team Support"
    assert scopes_words(scopes[:1]) == "the whole organisation"
    assert budget_words(9 * 10**12, "month", about).startswith("$9000.00 a month for each")


def test_another_amount_is_the_same_definition_and_another_zone_is_not() -> None:
    told = definition_of(budget(), "UTC")
    assert definition_of(budget(amount_nanousd=7, name="b", grace_percent=9), "UTC") == told
    others = (
        definition_of(budget(), "Asia/Kathmandu"),
        definition_of(budget(period=BudgetPeriod.WEEK), "UTC"),
        definition_of(budget(scopes=(BudgetScope(BudgetSubject.TEAM),)), "UTC"),
    )
    assert told not in others
    assert bucket_of(budget(period=BudgetPeriod.DAY), 1_799.9) == 900
    rolling = budget(period=BudgetPeriod.DAY, is_rolling=True)
    assert bucket_of(rolling, 3_599.9) == 1_800
    assert definition_of(rolling, "UTC") != definition_of(budget(period=BudgetPeriod.DAY), "UTC")


def test_what_counters_are_told() -> None:
    assert missed({"a": 5, "b": 5, "c": 5}, {"a": 3, "b": 7}) == {"a": 2, "c": 5}
    assert twice({"a": 3, "b": 7, "c": 1}, {"a": 5, "b": 5}) == {"b": -2}
    assert seeding({"a": 3, "b": 7}, {"a": 5, "b": 5, "c": 4}) == {"a": 2, "b": -2, "c": 4}


def process(name: str = "g/0", **changes: Any) -> Vitals:
    told: dict[str, Any] = {"started_at": 10.0, "written_at": 100.0, **changes}
    role = told.pop("role", ProcessRole.GATEWAY)
    return Vitals(role=role, gateway="g", process=name, pid=1, applied=Applied(), **told)


def lags(now: list[Vitals], *, now_s: float = 110.0, **seen: float) -> tuple[str, ...]:
    # written five seconds before, so by its own clock it was 105 then
    there = [process(), process("pools", role=ProcessRole.POOLS)]
    marks = marks_of(there, {"g/0": 95.0}, now_s=100.0)
    assert marks_of(there, {}, now_s=100.0) == marks
    names = {name.replace("_", "/"): when for name, when in seen.items()}
    return laggards(marks, now, names, then_s=100.0, now_s=now_s)


def test_the_ledger_has_caught_up_once_all_who_lived_have_handed_over() -> None:
    assert lags([process(written_at=104.9)]) == ("g/0",)
    assert lags([process(written_at=105.0)]) == ()
    behind = process(written_at=106.0, journal_backlog=3)
    assert lags([behind]) == ("g/0",)
    # the three that wait are among those that ended since
    later = (Traffic(at=105, organisation_id="o", requests=3),)
    assert lags([process(written_at=106.0, journal_backlog=3, traffic=later)]) == ()
    earlier = (Traffic(at=100, organisation_id="o", requests=3),)
    assert lags([process(written_at=106.0, journal_backlog=3, traffic=earlier)]) == ("g/0",)


def test_what_the_dead_left_is_waited_for_a_minute() -> None:
    assert lags([]) == ("g/0",)
    assert lags([process(started_at=11.0, written_at=109.0)]) == ("g/0",)
    assert lags([], now_s=100.0 + GONE_S) == ()
    alive = process(written_at=106.0)
    assert lags([alive], g_1=95.0) == ("g/1",)
    assert lags([alive], g_1=109.0) == ()
    assert lags([alive], g_1=95.0, now_s=95.0 + GONE_S) == ()

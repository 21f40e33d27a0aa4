"""Budgets by exact values: periods on odd nights, who counts on what, what is reserved and told."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import BudgetAction, BudgetPeriod, BudgetSubject, UnknownPrice
from inference.contract.snapshot import BudgetRecord, BudgetScope
from inference.decisions.admission import Requester, Stake
from inference.decisions.budgets import (
    Account,
    Period,
    account_key,
    accounts_of,
    amount_at,
    dollars,
    is_by_caller,
    is_of_model,
    next_change_s,
    period_of,
    refusal_words,
    stake_of,
)

UTC = ZoneInfo("UTC")
ANN = Requester("org_a", "team_a", "proj_a", "key_a", "ann", "mdl_a", "rt_m")
CENT = 10_000_000


def budget(*scopes: BudgetScope, **changes: object) -> BudgetRecord:
    record = BudgetRecord("bud_a", "org_a", "main", scopes, 100 * CENT, BudgetPeriod.MONTH)
    return replace(record, **changes)


def scope(subject: BudgetSubject, subject_id: str | None = None) -> BudgetScope:
    return BudgetScope(subject, subject_id)


@pytest.mark.parametrize(
    ("zone", "period", "at", "starts", "ends"),
    [
        ("Europe/Berlin", "day", "2026-03-29T12:00", "2026-03-29T00:00+01:00", "03-30T00:00+02:00"),
        ("Europe/Berlin", "day", "2026-10-25T02:30", "2026-10-25T00:00+02:00", "10-26T00:00+01:00"),
        # clocks skip midnight: the day begins at one
        ("Asia/Beirut", "day", "2023-03-26T12:00", "2023-03-26T01:00+03:00", "03-27T00:00+03:00"),
        ("US/Eastern", "week", "2026-11-01T23:00", "2026-10-26T00:00-04:00", "11-02T00:00-05:00"),
        ("Asia/Dhaka", "month", "2026-02-28T23:59", "2026-02-01T00:00+06:00", "03-01T00:00+06:00"),
        ("UTC", "month", "2028-02-29T00:00", "2028-02-01T00:00+00:00", "03-01T00:00+00:00"),
        ("NZ", "quarter", "2026-12-31T23:00", "2026-10-01T00:00+13:00", "2027-01-01T00:00+13:00"),
        ("Indian/Cocos", "hour", "2026-05-31T23:10", "2026-05-31T22:30+06:30", "05-31T23:30+06:30"),
    ],
)  # fmt: skip
def test_a_period_is_of_the_wall_clock(
    zone: str, period: str, at: str, starts: str, ends: str
) -> None:
    local = ZoneInfo(zone)
    moment = datetime.fromisoformat(at).replace(tzinfo=local).timestamp()
    found = period_of(BudgetPeriod(period), local, moment)
    ends = ends if ends.startswith("2") else f"{starts[:5]}{ends}"
    # an Auckland quarter begins before its clocks are set, and they differ by an hour
    expected = datetime.fromisoformat(starts).timestamp(), datetime.fromisoformat(ends).timestamp()
    assert (found.starts_s, found.ends_s) == tuple(map(int, expected))


@given(
    period=st.sampled_from(BudgetPeriod),
    zone=st.sampled_from(["UTC", "Asia/Beirut", "America/St_Johns", "Australia/Lord_Howe"]),
    at_s=st.floats(1.6e9, 2.0e9),
)
def test_periods_follow_each_other_without_a_gap(
    period: BudgetPeriod, zone: str, at_s: float
) -> None:
    local = ZoneInfo(zone)
    one = period_of(period, local, at_s)
    assert one.starts_s <= at_s < one.ends_s
    assert period_of(period, local, one.ends_s).starts_s == one.ends_s
    assert period_of(period, local, one.starts_s - 0.001).ends_s == one.starts_s


def test_a_request_counts_on_all_that_it_is_of() -> None:
    tag, user, model = BudgetSubject.TAG, BudgetSubject.END_USER, BudgetSubject.MODEL
    budgets = [
        budget(scope(BudgetSubject.TEAM, "team_a"), id="b1"),
        budget(scope(BudgetSubject.TEAM, "team_b"), id="b2"),
        budget(scope(tag), scope(user), id="b3"),
        budget(scope(tag, "beta"), id="b4"),
        budget(scope(model, "mdl_a"), id="b5"),
    ]

    def counted(who: Requester, *tags: str) -> list[tuple[str, tuple[str, ...]]]:
        found = accounts_of(budgets, who, tags, zone=UTC, at_s=0.0)
        return [(one.budget.id, one.subjects) for one in found]

    assert counted(ANN, "alpha", "beta") == [
        ("b1", ("team_a",)),
        *(("b3", ("alpha", "ann")), ("b3", ("beta", "ann"))),
        *(("b4", ("beta",)), ("b5", ("mdl_a",))),
    ]
    nobody = Requester("org_a", "", "", "key_b")
    assert counted(nobody, "beta") == [("b4", ("beta",))]
    assert [is_of_model(one) for one in budgets] == [False] * 4 + [True]
    assert [is_by_caller(one) for one in budgets] == [False, False, True, False, False]


def test_a_counter_is_of_one_budget_its_subjects_and_one_period() -> None:
    period = Period(0, 10)
    one = Account(budget(scope(BudgetSubject.END_USER)), ("ann",), period)
    others = [
        replace_account(one, subjects=("bob",)),
        replace_account(one, period=Period(10, 20)),
        replace_account(one, budget=replace(one.budget, id="bud_b")),
        replace_account(one, subjects=("an", "n")),
    ]
    keys = {account_key(each) for each in (one, *others)} | {account_key(one, shared_by="ann")}
    assert len(keys) == 6
    # a raise, or another amount, loses nothing of what was spent
    assert account_key(replace_account(one, budget=replace(one.budget, amount_nanousd=5))) in keys


def replace_account(account: Account, **changes: object) -> Account:
    fields = {"budget": account.budget, "subjects": account.subjects, "period": account.period}
    return Account(**{**fields, **changes})  # type: ignore[arg-type]


def test_what_is_asked_for_depends_on_what_it_does() -> None:
    blocking = budget(scope(BudgetSubject.KEY))
    assert stake_of(blocking, 7) == Stake(7, 7)
    assert stake_of(blocking, None) is None
    assert stake_of(replace(blocking, unknown_price=UnknownPrice.ALLOW), None) == Stake(0, 0)
    telling = replace(blocking, action=BudgetAction.NOTIFY)
    assert stake_of(telling, 7) == stake_of(telling, None) == Stake(0, 0)


def test_an_amount_is_raised_until_then_and_grace_is_for_those_that_block() -> None:
    one = budget(
        scope(BudgetSubject.KEY), grace_percent=10, raised_to_nanousd=200 * CENT, raised_until=50.0
    )
    assert [amount_at(one, at) for at in (49.9, 50.0)] == [220 * CENT, 110 * CENT]
    assert amount_at(replace(one, action=BudgetAction.NOTIFY), 50.0) == 100 * CENT
    lower = replace(one, raised_to_nanousd=CENT)
    assert amount_at(lower, 0.0) == 110 * CENT, "a raise lowers nothing"
    account = Account(one, ("key_a",), Period(0, 100))
    assert [next_change_s(account, at) for at in (0.0, 50.0)] == [50.0, 100]


def test_a_refusal_says_which_budget_how_much_and_until_when() -> None:
    account = Account(budget(scope(BudgetSubject.TEAM)), ("team_a",), Period(0, 86_400))
    assert refusal_words(account, 5 * CENT, now_s=0.0) == (
        "The budget main of this team is $1.00 a month, and less than the $0.05 it may cost is left"
        " until 1970-01-02 00:00 UTC."
    )
    assert refusal_words(account, 101 * CENT, now_s=0.0) == (
        "The budget main of this team is $1.00 a month, and this request may cost $1.01."
    )
    assert refusal_words(account, 5 * CENT, now_s=0.0, is_held=True) == (
        "The budget main of this team is $1.00 a month; what is left for the $0.05 it may cost is"
        " held for others."
    )
    hourly = replace_account(account, budget=replace(account.budget, period=BudgetPeriod.HOUR))
    assert "$1.00 an hour," in refusal_words(hourly, 5 * CENT, now_s=0.0)
    assert "no price" in refusal_words(account, None, now_s=0.0)


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [(0, "$0.00"), (CENT, "$0.01"), (1, "$0.000000001"), (1_234_500_000, "$1.2345")],
)
def test_dollars_are_exact(nanousd: int, text: str) -> None:
    assert dollars(nanousd) == text

"""Which limits bear on a request, what they take and count, and what a refusal says."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.contract.kinds import Enforcement, LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import LimitRecord
from inference.decisions.admission import (
    TOKEN_UNITS,
    Bearing,
    Bounds,
    Requester,
    Spent,
    Stake,
    Used,
    bearing_limits,
    booked,
    duration_words,
    index_limits,
    is_too_large,
    refusal_words,
    stake_of,
    tokens_used,
    units_ahead,
)

BOUNDS = Bounds(input_tokens=100, output_tokens=40)
WHO = Requester("org_a", "team_a", "proj_a", "key_a", "ann", "mdl_a", "rt_a")
IDS = {
    LimitSubject.ORGANISATION: "",
    LimitSubject.TEAM: "team_a",
    LimitSubject.PROJECT: "proj_a",
    LimitSubject.KEY: "key_a",
    LimitSubject.END_USER: "ann",
    LimitSubject.MODEL: "mdl_a",
    LimitSubject.ROUTE: "rt_a",
}


def limit(unit: LimitUnit = LimitUnit.REQUESTS, amount: int = 5, **changes: object) -> LimitRecord:
    window = None if unit is LimitUnit.PARALLEL else LimitWindow.MINUTE
    record = LimitRecord("lim_a", "org_a", "burst", LimitSubject.KEY, unit, amount, "key_a", window)
    return replace(record, **changes)


def bearing(*limits: LimitRecord, who: Requester = WHO) -> tuple[Bearing, ...]:
    return bearing_limits(index_limits({one.id: one for one in limits}), who)


@pytest.mark.parametrize("subject", list(LimitSubject))
def test_a_limit_bears_on_the_one_it_names_and_one_that_names_nobody_on_each_apart(
    subject: LimitSubject,
) -> None:
    named = limit(subject=subject, subject_id=IDS[subject] or None)
    each = limit(id="lim_each", subject=subject, subject_id=None)
    other = limit(id="lim_other", subject=subject, subject_id="somebody else")
    expected = {Bearing(named, IDS[subject]), Bearing(each, IDS[subject])}
    assert set(bearing(named, each, other)) == expected


def test_a_limit_that_is_off_or_of_another_organisation_bears_on_nobody() -> None:
    off = limit(is_enabled=False)
    foreign = limit(id="lim_b", organisation_id="org_b", subject_id=None)
    assert bearing(off, foreign) == ()


def test_who_names_no_end_user_has_no_limit_of_end_users() -> None:
    each = limit(subject=LimitSubject.END_USER, subject_id=None)
    assert bearing(each, who=replace(WHO, end_user=None)) == ()


@pytest.mark.parametrize(
    ("unit", "enforcement", "stake"),
    [
        (LimitUnit.REQUESTS, Enforcement.LENIENT, Stake(1, 1)),
        (LimitUnit.PARALLEL, Enforcement.STRICT, Stake(1, 1)),
        (LimitUnit.INPUT_TOKENS, Enforcement.STRICT, Stake(100, 100)),
        (LimitUnit.OUTPUT_TOKENS, Enforcement.STRICT, Stake(40, 40)),
        (LimitUnit.TOTAL_TOKENS, Enforcement.STRICT, Stake(140, 140)),
        (LimitUnit.TOTAL_TOKENS, Enforcement.LENIENT, Stake(1, 0)),
    ],
)
def test_strict_tokens_are_taken_as_a_bound_and_lenient_ones_looked_at(
    unit: LimitUnit, enforcement: Enforcement, stake: Stake
) -> None:
    assert stake_of(limit(unit, enforcement=enforcement), BOUNDS) == stake


@pytest.mark.parametrize("enforcement", list(Enforcement))
@pytest.mark.parametrize("unit", sorted(TOKEN_UNITS))
def test_who_can_use_no_tokens_passes_a_limit_on_them(
    unit: LimitUnit, enforcement: Enforcement
) -> None:
    assert stake_of(limit(unit, enforcement=enforcement), Bounds()) == Stake(0, 0)


FINAL = Spent(Usage(10, 5), was_sent=True, is_final=True, http_status=200)
CUT = Spent(Usage(10, None), was_sent=True, is_final=False, http_status=200)
SILENT = Spent(None, was_sent=True, is_final=False)
BUSY = Spent(None, was_sent=True, is_final=False, http_status=503)
UNSENT = Spent(None, was_sent=False, is_final=False)


@pytest.mark.parametrize(
    ("attempts", "used"),
    [
        ((), Used(0, 0)),
        ((UNSENT,), Used(0, 0)),
        ((BUSY,), Used(0, 0)),
        ((SILENT,), Used(None, None)),
        ((CUT,), Used(10, None)),
        ((FINAL,), Used(10, 5)),
        ((SILENT, FINAL), Used(10, 5)),
        ((FINAL, SILENT), Used(10, 5)),
        ((CUT, UNSENT), Used(10, None)),
        ((FINAL, replace(FINAL, usage=Usage(10, 7))), Used(10, 7)),
        ((FINAL, replace(SILENT, is_final=True, http_status=200)), Used(None, None)),
    ],
)
def test_what_counts_is_the_answer_its_caller_got(attempts: tuple[Spent, ...], used: Used) -> None:
    assert tokens_used(attempts) == used


@pytest.mark.parametrize(
    ("unit", "used", "count"),
    [
        (LimitUnit.REQUESTS, Used(None, None), (1, False)),
        (LimitUnit.PARALLEL, Used(10, 5), (0, False)),
        (LimitUnit.INPUT_TOKENS, Used(10, None), (10, False)),
        (LimitUnit.OUTPUT_TOKENS, Used(10, None), (40, True)),
        (LimitUnit.OUTPUT_TOKENS, Used(10, 0), (0, False)),
        (LimitUnit.TOTAL_TOKENS, Used(10, 5), (15, False)),
        (LimitUnit.TOTAL_TOKENS, Used(10, None), (50, True)),
        (LimitUnit.TOTAL_TOKENS, Used(None, None), (140, True)),
    ],
)
def test_what_is_not_known_is_counted_as_the_most_it_can_have_been(
    unit: LimitUnit, used: Used, count: tuple[int, bool]
) -> None:
    assert booked(limit(unit), BOUNDS, used) == count


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(1, 1000))
def test_units_ahead_double_while_asked_for_often_and_fade_when_not(
    waits: list[float], floor: int
) -> None:
    ahead = [0]
    for wait in waits:
        ahead.append(units_ahead(ahead[-1], floor=floor, since_s=wait))
    for (before, after), wait in zip(pairwise(ahead), waits, strict=True):
        if wait >= 2:
            assert after == before // 2
        elif wait >= 1:
            assert after == before
        else:
            assert after == min(max(2 * before, 2 * floor), 2**40)


def test_a_refusal_names_limit_unit_amount_and_window() -> None:
    words = refusal_words(limit(), Stake(1, 1), retry_after_s=12)
    assert words == (
        "The limit burst of this key is 5 requests a minute, and it is reached."
        " Please try again in 12 s."
    )
    parallel = limit(LimitUnit.PARALLEL, 2, subject=LimitSubject.END_USER)
    assert refusal_words(parallel, Stake(1, 1), retry_after_s=1) == (
        "The limit burst of this end user is 2 requests at a time, and it is reached."
        " Please try again in 1 s."
    )


def test_a_request_that_never_fits_is_told_so() -> None:
    strict = limit(LimitUnit.INPUT_TOKENS, 50, enforcement=Enforcement.STRICT)
    stake = stake_of(strict, BOUNDS)
    assert is_too_large(strict, stake)
    assert refusal_words(strict, stake, retry_after_s=None) == (
        "The limit burst of this key is 50 input tokens a minute, and this request may use 100."
    )
    nothing = limit(amount=0)
    assert not is_too_large(nothing, Stake(1, 1))
    assert refusal_words(nothing, Stake(1, 1), retry_after_s=None) == (
        "The limit burst of this key is 0 requests a minute."
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0s"),
        (0.0002, "1ms"),
        (0.25, "250ms"),
        (1, "1s"),
        (11.2, "12s"),
        (360, "6m0s"),
        (3630, "1h0m30s"),
        (86_400, "24h0m0s"),
    ],
)
def test_durations_are_written_as_openai_does(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words

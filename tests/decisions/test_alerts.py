"""When an alert fires and ends, by exact times; and that a past is judged by the same steps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.decisions.alert_kinds import NoData, condition_words, place_words, value_words
from controlplane.decisions.alerts import (
    GAP,
    Standing,
    Stretch,
    Terms,
    Verdict,
    judge,
    stretches_of,
)
from controlplane.decisions.deliveries import (
    LONGEST_WAIT_S,
    TRIES,
    Failure,
    after_failure,
    failure_of_status,
)

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
TERMS = Terms(threshold=10.0, for_s=30)


def verdicts(*values: float | None, terms: Terms = TERMS, every_s: int = 10) -> list[str]:
    standing, found = Standing(), []
    for number, value in enumerate(values):
        at = NOON + timedelta(seconds=every_s * number)
        standing, verdict = judge(terms, standing, value, at)
        found.append(verdict.value)
    return found


def test_it_fires_after_its_time_and_ends_after_a_minute_below() -> None:
    assert verdicts(12, 12, 12, 12) == ["pending", "pending", "pending", "fire"]
    after = verdicts(12, 12, 12, 12, *[1] * 7)[4:]
    assert after == ["keep"] * 6 + ["resolve"]


def test_a_dip_begins_the_time_anew() -> None:
    assert verdicts(12, 12, 12, 9, 12, 12, 12, 12)[-4:] == ["pending"] * 3 + ["fire"]


def test_a_value_that_swings_about_the_threshold_is_one_alert() -> None:
    swing = [12, 9.5] * 20
    assert set(verdicts(*[12] * 4, *swing)[4:]) == {"keep"}
    # below for long, but never for long enough at a time
    assert set(verdicts(*[12] * 4, *[1, 1, 1, 12] * 10)[4:]) == {"keep"}


def test_no_data_holds_what_is() -> None:
    assert verdicts(12, 12, 12, 12, *[None] * 50)[-1] == "keep"
    assert verdicts(None, None) == ["quiet", "quiet"]
    assert verdicts(12, 12, None, 12)[-1] == "pending", "no time counts that nobody knows of"
    assert verdicts(12, 12, 12, 12, *[1] * 5, None, *[1] * 6)[-1] == "keep"


def test_what_fires_gets_worse_once_after_its_time_at_the_graver_threshold() -> None:
    terms = replace(TERMS, critical_at=20.0)
    assert verdicts(*[12] * 4, 25, 25, 25, terms=terms)[4:] == ["keep"] * 3
    assert verdicts(*[12] * 4, *[25] * 4, terms=terms)[-1] == "worsen"
    assert verdicts(*[12] * 4, 25, 25, 19, 25, 25, 25, 25, terms=terms)[-2:] == ["keep", "worsen"]
    assert "worsen" not in verdicts(*[12] * 4, 25, 25, 25, None, None, 25, terms=terms)
    assert verdicts(*[12] * 4, 25, 25, None, *[25] * 4, terms=terms)[-2:] == ["keep", "worsen"]
    fires = replace(terms, no_data=NoData.ALERT)
    unknown = stretches_of(
        fires, [(NOON + timedelta(seconds=10 * n), one) for n, one in enumerate((25, *[None] * 5))]
    )
    assert [one.critical_since for one in unknown] == [None], "nobody knows that it is so grave"
    # it stays so to its end
    assert "worsen" not in verdicts(*[12] * 4, *[25] * 4, *[12, 25] * 9, terms=terms)[8:]
    at_once = stretches_of(terms, [(NOON + timedelta(seconds=10 * n), 25) for n in range(6)])
    assert at_once == [
        Stretch(NOON + timedelta(seconds=30), None, 25, NOON + timedelta(seconds=30))
    ]


def test_no_data_ends_an_alert_or_is_one_where_the_rule_says_so() -> None:
    ends = replace(TERMS, no_data=NoData.RESOLVE)
    assert verdicts(*[12] * 4, *[None] * 7, terms=ends)[-2:] == ["keep", "resolve"]
    assert verdicts(None, None, None, None, terms=ends) == ["quiet"] * 4
    fires = replace(TERMS, no_data=NoData.ALERT)
    assert verdicts(*[None] * 4, terms=fires) == ["pending"] * 3 + ["fire"]
    assert verdicts(*[None] * 4, *[1] * 7, terms=fires)[-1] == "resolve"
    assert verdicts(12, None, 12, None, terms=fires)[-1] == "fire"
    (told,) = stretches_of(fires, [(NOON + timedelta(seconds=10 * n), None) for n in range(5)])
    assert (told.peak, told.until) == (None, None)


def test_a_pause_of_looking_proves_nothing() -> None:
    standing, verdict = judge(TERMS, Standing(), 12, NOON)
    assert verdict is Verdict.PENDING
    later = NOON + GAP + timedelta(seconds=1)
    standing, verdict = judge(TERMS, standing, 12, later)
    assert verdict is Verdict.PENDING
    assert standing.breached_since == later


def test_at_once_is_at_once() -> None:
    assert verdicts(10, terms=Terms(10, 0)) == ["fire"]
    assert verdicts(9.99, terms=Terms(10, 0)) == ["quiet"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 20)), max_size=60), st.integers(0, 120))
def test_a_past_has_the_alerts_that_looks_would_have_made(
    values: list[float | None], for_s: int
) -> None:
    terms = Terms(10.0, for_s)
    told = verdicts(*values, terms=terms, every_s=60)
    moments = [NOON + timedelta(seconds=60 * number) for number in range(len(values))]
    found = stretches_of(terms, list(zip(moments, values, strict=True)))
    fired = [at for at, one in zip(moments, told, strict=True) if one == "fire"]
    ended = [at for at, one in zip(moments, told, strict=True) if one == "resolve"]
    assert [one.since for one in found] == fired
    assert [one.until for one in found if one.until] == ended
    assert all(isinstance(one, Stretch) and one.peak >= 10 for one in found)


def test_what_a_status_means() -> None:
    assert failure_of_status(204, None) is None
    assert failure_of_status(503, 3.0) == Failure("The receiver answered 503.", 503, 3.0)
    refused = failure_of_status(404, None)
    assert refused is not None
    assert refused.is_final


def test_patience_that_is_asked_for_counts_for_nothing_and_is_bounded() -> None:
    busy = Failure("busy", 429, 10.0**9)
    told = after_failure(busy, attempts=1, now=NOON)
    assert told.at == told.channel_waits_until == NOON + timedelta(seconds=LONGEST_WAIT_S)
    assert told.weight == 0
    assert after_failure(busy, attempts=TRIES, now=NOON).at is None
    # what fails without a word is left alone for a while too, or it would hold up other channels
    hung = after_failure(Failure("hangs"), attempts=6, now=NOON)
    assert (hung.at, hung.weight) == (NOON + timedelta(seconds=1_200), 1)
    assert hung.channel_waits_until == NOON + timedelta(seconds=60)


def test_words() -> None:
    assert value_words("error_rate", 7.5) == "7.5 %"
    assert value_words("first_token", 2_300.4) == "2,300 ms"
    assert value_words("breaker_open", 3.0) == "3"
    assert value_words("error_rate", None) == "\N{EN DASH}"
    told = condition_words("error_rate", 5.0, 300, 120)
    assert told == "Error rate 5 % or more in 5 min, for 2 min"
    assert place_words("pool", "pool_1", "mine") == "pool mine"
    assert place_words("route", None, None) == "each route"

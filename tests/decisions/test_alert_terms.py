"""What alerts are judged by: quiet hours, flapping, usual spending, error budgets, silences."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from controlplane.decisions.alert_kinds import DeliveryKind
from controlplane.decisions.alert_words import digest_content
from controlplane.decisions.alerts import Terms, stretches_of
from controlplane.decisions.deliveries import Holding, held_until
from controlplane.decisions.propagation import Silences, silences_of
from controlplane.decisions.quiet import quiet_until
from controlplane.decisions.service_levels import (
    Objective,
    Objectives,
    Seen,
    burn_of,
    burn_words,
    misses_of,
)
from controlplane.decisions.spending import compare
from inference.decisions.histograms import bucket_of

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = (time(22), time(6))
CENT = 10_000_000


def at(*told: int) -> datetime:
    return datetime(*told, tzinfo=UTC)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (at(2026, 12, 1, 20, 59), None),
        (at(2026, 12, 1, 21), at(2026, 12, 2, 5)),
        (at(2026, 12, 2, 4, 59), at(2026, 12, 2, 5)),
        (at(2026, 12, 2, 5), None),
        # the night in which clocks are set forward is an hour shorter, the other one longer
        (at(2026, 3, 28, 21), at(2026, 3, 29, 4)),
        (at(2026, 10, 24, 20), at(2026, 10, 25, 5)),
    ],
)
def test_quiet_is_by_peoples_clocks(now: datetime, until: datetime | None) -> None:
    assert quiet_until(now, BERLIN, *NIGHT) == until


def test_a_time_that_clocks_leave_out_is_when_they_are_set_forward() -> None:
    asked = (BERLIN, time(0), time(2, 30))
    assert quiet_until(at(2026, 3, 29, 0, 59, 59), *asked) == at(2026, 3, 29, 1)
    assert quiet_until(at(2026, 3, 29, 1), *asked) is None


def test_a_time_that_comes_twice_begins_at_the_first_and_ends_at_the_second() -> None:
    asked = (BERLIN, time(2, 15), time(2, 45))
    assert quiet_until(at(2026, 10, 25, 0, 14), *asked) is None
    assert quiet_until(at(2026, 10, 25, 0, 15), *asked) == at(2026, 10, 25, 1, 45)
    assert quiet_until(at(2026, 10, 25, 1, 44), *asked) == at(2026, 10, 25, 1, 45)


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    saturday = at(2026, 12, 5, 12)
    assert quiet_until(saturday + timedelta(hours=14), BERLIN, *NIGHT, (5,)) == at(2026, 12, 6, 5)
    assert quiet_until(saturday + timedelta(hours=38), BERLIN, *NIGHT, (5,)) is None
    # one that ends as it begins lasts a day
    whole = (time(0), time(0), (5,))
    assert quiet_until(saturday, BERLIN, *whole) == at(2026, 12, 5, 23)


def test_what_is_kept_back_and_until_when() -> None:
    now = at(2026, 12, 1, 20, 55)
    holding = Holding(600, *NIGHT, critical_passes=True, zone=BERLIN)
    # the digest would be due in the night
    assert held_until(holding, DeliveryKind.FIRED, "warning", now=now) == at(2026, 12, 2, 5)
    assert held_until(holding, DeliveryKind.FIRED, "critical", now=now) is None
    for kind in (DeliveryKind.TEST, DeliveryKind.UPDATED, DeliveryKind.DIGEST):
        assert held_until(holding, kind, "warning", now=now) is None
    plain = Holding(0, None, None, critical_passes=False, zone=BERLIN)
    assert held_until(plain, DeliveryKind.FIRED, "critical", now=now) is None
    collected = Holding(600, None, None, critical_passes=False, zone=BERLIN)
    due = now + timedelta(minutes=10)
    assert held_until(collected, DeliveryKind.FIRED, "critical", now=now) == due


def test_a_digest_is_as_grave_as_the_gravest_and_lists_no_more_than_people_read() -> None:
    told = [
        {"title": f"t{number}", "severity": "notice", "alerts": [{"id": number}]}
        for number in range(25)
    ]
    content = digest_content([*told, {"title": "last", "severity": "critical", "alerts": []}])
    assert content["severity"] == "critical"
    lines = str(content["text"]).splitlines()
    assert (len(lines), lines[0], lines[-1]) == (21, "t0", "and 6 more")
    assert len(content["alerts"]) == 25  # type: ignore[arg-type]


def test_what_fires_a_third_time_within_an_hour_is_over_slowly() -> None:
    start = at(2026, 12, 1)
    # two minutes bad, three good, again and again, then good
    values = [
        (start + timedelta(minutes=minute), 10.0 if minute % 5 < 2 and minute < 40 else 0.0)
        for minute in range(80)
    ]
    found = stretches_of(Terms(5.0, 0), values)
    assert len(found) == 3
    assert [one.until for one in found[:2]] == [
        start + timedelta(minutes=3),
        start + timedelta(minutes=8),
    ]
    # the last bad minute is the 36th; from the 37th on it is good, for a quarter of an hour
    assert found[2].until == start + timedelta(minutes=52)


def test_an_alert_is_over_below_the_value_that_was_asked_for() -> None:
    start = at(2026, 12, 1)
    values = [
        (start + timedelta(minutes=n), one) for n, one in enumerate((9.0, 4.0, 4.0, 2.9, 2.9))
    ]
    (one,) = stretches_of(Terms(5.0, 0, 3.0), values)
    assert one.until == start + timedelta(minutes=4)


def test_an_hour_is_compared_with_the_middle_of_days_that_one_wild_day_cannot_move() -> None:
    usual = [200 * CENT, 210 * CENT, 190 * CENT, 205 * CENT, 195 * CENT, 5_000 * CENT]
    found = compare(1_000 * CENT, usual)
    assert found is not None
    assert found.usual_nanousd == round(202.5 * CENT)
    assert found.spread_nanousd == pytest.approx(20.25 * CENT, rel=0.01), "a tenth, at least"
    assert found.deviations == pytest.approx(39.4, abs=0.1)
    assert found.words == (
        "$10.00 in the last hour; in the same hour of the last 6 days $2.02 (median), give or"
        " take $0.20 (robust deviation)."
    )
    assert compare(1_000 * CENT, usual[:4]) is None, "nobody knows what is usual"
    quiet = compare(0, usual)
    assert quiet is not None
    assert quiet.deviations == 0
    free = compare(CENT // 2, [0] * 14)
    assert free is not None
    assert free.deviations == 0.5, "half a cent more than nothing is no alert"


def test_the_objective_that_goes_the_fastest_in_both_windows_counts() -> None:
    promised = Objectives(99.9, 200, 2_000)
    slow = {bucket_of(100.0): 60, bucket_of(5_000.0): 40}
    long = Seen(10_000, 100, slow)
    found = burn_of(promised, long, Seen(1_000, 5, slow))
    assert found is not None
    assert (found.objective, found.rate) == (Objective.P99, 40.0)
    # it has stopped: the short window says so
    over = burn_of(promised, long, Seen(1_000, 0, {bucket_of(100.0): 100}))
    assert over is not None
    assert over.rate == 0
    (answered, half, tail) = misses_of(promised, long)
    assert answered.left_percent == pytest.approx(-900)
    assert half.left_percent == pytest.approx(20)
    assert tail.objective is Objective.P99
    assert burn_words(found, promised, "1 h", "5 min") == (
        "Objective: first token in 2,000 ms for 99 in 100; 40 % of the last 1 h missed it (40"
        " times what may), 40 % of the last 5 min missed it (40 times what may)."
    )


def test_of_few_requests_and_without_objectives_nothing_is_known() -> None:
    few = Seen(9, 9, {1: 9})
    assert burn_of(Objectives(99.99, 200, 2_000), few, few) is None
    many = Seen(1_000, 1, {1: 1_000})
    assert burn_of(Objectives(None, None, None), many, many) is None


def test_a_gateway_is_missed_for_an_hour_then_forgotten_and_who_signed_off_is_neither() -> None:
    seen = {"a/0": 9_000.0, "b/0": 6_500.0, "b/1": 9_000.0, "c/0": 5_000.0, "d/0": 1_000.0}
    assert silences_of(10_000.0, seen, ()) == Silences(("a", "b"), ("c",))

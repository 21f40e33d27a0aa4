"""Days of spending that are out of the ordinary."""

from datetime import date, timedelta

from controlplane.decisions.spend_anomalies import find_anomalies

DAY = timedelta(days=1)
FIRST = date(2026, 11, 1)
AFTER = date(2026, 12, 1)


def days(count: int, before: date, cost: int = 1_000) -> dict[date, int]:
    return {before - (place + 1) * DAY: cost for place in range(count)}


def test_a_day_far_above_the_usual_is_told_with_the_usual() -> None:
    spent = days(40, AFTER) | {date(2026, 11, 10): 5_000}
    (found,) = find_anomalies(spent, FIRST, AFTER)
    assert (found.day, found.nanousd) == (date(2026, 11, 10), 5_000)
    assert (found.usual.nanousd, found.usual.low_nanousd, found.usual.high_nanousd) == (
        1_000,
        700,
        1_300,
    )


def test_a_day_without_anything_is_out_of_the_ordinary_too_but_not_before_the_first() -> None:
    spent = days(20, AFTER)
    del spent[date(2026, 11, 25)]
    assert [one.day for one in find_anomalies(spent, FIRST, AFTER)] == [date(2026, 11, 25)]


def test_week_ends_are_compared_with_week_ends() -> None:
    spent = {day: 100 if day.weekday() >= 5 else 1_000 for day in days(70, AFTER)}
    assert find_anomalies(spent, FIRST, AFTER) == []
    spent[date(2026, 11, 28)] = 1_000
    assert [one.day for one in find_anomalies(spent, FIRST, AFTER)] == [date(2026, 11, 28)]


def test_too_few_days_before_tell_nothing() -> None:
    spent = days(6, date(2026, 11, 7)) | {date(2026, 11, 7): 10**9}
    assert find_anomalies(spent, FIRST, date(2026, 11, 8)) == []


def test_a_day_that_is_filling_can_only_be_too_dear() -> None:
    today = date(2026, 11, 20)
    spent = days(40, today) | {today: 10}
    assert find_anomalies(spent, FIRST, AFTER, filling=today) == []
    spent[today] = 10_000
    assert [one.day for one in find_anomalies(spent, FIRST, AFTER, filling=today)] == [today]


def test_corrections_below_zero_are_days_like_others() -> None:
    spent = days(40, AFTER) | {date(2026, 11, 10): -500}
    assert [one.nanousd for one in find_anomalies(spent, FIRST, AFTER)] == [-500]

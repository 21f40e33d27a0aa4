"""When scheduled reports are due, by the clock of any zone."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from controlplane.decisions.report_calendar import due_period, next_due
from controlplane.decisions.report_kinds import Cadence


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cadence", "zone", "now", "since", "until", "sent_at"),
    [
        # a moment before and at the hour, on both sides of UTC
        ("daily", "UTC", "2026-11-24T06:59:59", "2026-11-22", "2026-11-23", "2026-11-23T07:00"),
        ("daily", "UTC", "2026-11-24T07:00", "2026-11-23", "2026-11-24", "2026-11-24T07:00"),
        (
            *("daily", "Pacific/Kiritimati", "2026-11-23T17:00"),
            *("2026-11-23", "2026-11-24", "2026-11-23T17:00"),
        ),
        (
            *("daily", "America/New_York", "2026-11-24T11:59"),
            *("2026-11-22", "2026-11-23", "2026-11-23T12:00"),
        ),
        # clocks go back on the first day, so seven o'clock comes an hour later
        (
            *("daily", "America/New_York", "2026-11-01T12:00"),
            *("2026-10-31", "2026-11-01", "2026-11-01T12:00"),
        ),
        ("weekly", "UTC", "2026-11-23T07:00", "2026-11-16", "2026-11-23", "2026-11-23T07:00"),
        ("weekly", "UTC", "2026-11-23T06:00", "2026-11-09", "2026-11-16", "2026-11-16T07:00"),
        ("monthly", "UTC", "2026-03-01T07:00", "2026-02-01", "2026-03-01", "2026-03-01T07:00"),
        ("monthly", "UTC", "2026-01-01T06:00", "2025-11-01", "2025-12-01", "2025-12-01T07:00"),
        (
            *("monthly", "Asia/Kathmandu", "2026-02-28T20:00"),
            *("2026-01-01", "2026-02-01", "2026-02-01T01:15"),
        ),
    ],
)
def test_the_newest_period_whose_hour_has_come_is_due(
    cadence: str, zone: str, now: str, since: str, until: str, sent_at: str
) -> None:
    found = due_period(Cadence(cadence), 7, utc(now), ZoneInfo(zone))
    assert (str(found.since), str(found.until), found.sent_at) == (since, until, utc(sent_at))


def test_an_hour_that_clocks_skip_is_sent_an_hour_later() -> None:
    found = due_period(Cadence.DAILY, 2, utc("2026-03-29T01:30"), ZoneInfo("Europe/Berlin"))
    assert (found.until, found.sent_at) == (date(2026, 3, 29), utc("2026-03-29T01:00"))


@pytest.mark.parametrize(
    ("cadence", "following"),
    [
        ("daily", "2026-12-01T07:00"),
        ("weekly", "2026-12-07T07:00"),
        ("monthly", "2026-12-01T07:00"),
    ],
)
def test_the_next_one_is_told(cadence: str, following: str) -> None:
    assert next_due(Cadence(cadence), 7, utc("2026-11-30T08:00"), ZoneInfo("UTC")) == utc(following)

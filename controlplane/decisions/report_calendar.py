"""When a scheduled report is due, and of which days it tells. Pure."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from controlplane.decisions.report_kinds import Cadence

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Period:
    """The days [since, until) of a zone, and when their report goes out."""

    since: date
    until: date
    sent_at: datetime


def due_period(cadence: Cadence, hour: int, now: datetime, zone: ZoneInfo) -> Period:
    """The newest period whose report should have gone out by now.

    It goes out at this hour of the zone's clock on the day after the period. Where clocks are put
    forward over that hour it goes out an hour later, where they are put back at the first of two.
    """
    today = now.astimezone(zone).date()
    until = _end_before(cadence, today)
    sent_at = _at(until, hour, zone)
    if sent_at > now:
        until = _end_before(cadence, until - _DAY)
        sent_at = _at(until, hour, zone)
    return Period(_since(cadence, until), until, sent_at)


def next_due(cadence: Cadence, hour: int, now: datetime, zone: ZoneInfo) -> datetime:
    """When the next report goes out."""
    until = due_period(cadence, hour, now, zone).until
    following = {
        Cadence.DAILY: until + _DAY,
        Cadence.WEEKLY: until + _WEEK,
        Cadence.MONTHLY: (until + 31 * _DAY).replace(day=1),
    }
    return _at(following[cadence], hour, zone)


def _end_before(cadence: Cadence, day: date) -> date:
    """The last end of a period that is not after this day."""
    if cadence is Cadence.WEEKLY:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if cadence is Cadence.MONTHLY else day


def _since(cadence: Cadence, until: date) -> date:
    if cadence is Cadence.MONTHLY:
        return (until - _DAY).replace(day=1)
    return until - (_WEEK if cadence is Cadence.WEEKLY else _DAY)


def _at(day: date, hour: int, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(hour), zone).astimezone(UTC)

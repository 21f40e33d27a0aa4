"""Times of day that come again: quiet hours of channels, and silences that recur.

All are read from the clocks of an organisation's people. Where those are set forward, a time that
is left out is the moment of the change; where they are set back, a time that comes twice begins at
the first and ends at the second, so quiet is never shorter than was asked for.
"""

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EVERY_DAY = frozenset(range(7))
_DAY = timedelta(days=1)


def quiet_until(
    now: datetime,
    zone: ZoneInfo,
    begins: time,
    ends: time,
    weekdays: Collection[int] = EVERY_DAY,
) -> datetime | None:
    """When the quiet that holds now is over; None if none does.

    `weekdays` are those on which it begins, Monday is 0. One that ends before it begins lasts into
    the next day; one that ends as it begins lasts a day.
    """
    today = now.astimezone(zone).date()
    # a change of the clocks may move a bound past midnight, so both neighbours are looked at
    found = [
        until
        for day in (today - _DAY, today, today + _DAY)
        if day.weekday() in weekdays
        for since, until in (_stretch(day, zone, begins, ends),)
        if since <= now < until
    ]
    return max(found, default=None)


def _stretch(day: date, zone: ZoneInfo, begins: time, ends: time) -> tuple[datetime, datetime]:
    last = day if ends > begins else day + _DAY
    return _moment(day, begins, zone, fold=0), _moment(last, ends, zone, fold=1)


def _moment(day: date, at: time, zone: ZoneInfo, *, fold: int) -> datetime:
    """A time on people's clocks; one that they leave out is when they were set forward."""
    local = datetime.combine(day, at, zone).replace(fold=fold)
    moment = local.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return moment
    # folds of a time that is left out lie on both sides of the change
    early, late = sorted(local.replace(fold=one).astimezone(UTC) for one in (0, 1))
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) / 2
        is_before = middle.astimezone(zone).utcoffset() == early.astimezone(zone).utcoffset()
        early, late = (middle, late) if is_before else (early, middle)
    return late.replace(microsecond=0)

"""Questions about usage: a range by name or by its ends, its buckets and groups. Pure.

Ranges are half-open and told in the organisation's zone. Every end is returned in UTC, so that
differences are real durations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from controlplane.decisions.rollups import DIMENSIONS, NAMED, hour_of
from controlplane.errors import Invalid


class Bucket(StrEnum):
    """How long the stretches are that usage is summed over."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class Measure(StrEnum):
    """Which figure ranks the groups, and is drawn."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    COST = "cost"


class Range(StrEnum):
    """A range by its name; days and months are calendar ones, the current one among them."""

    HOURS = "24h"
    WEEK = "7d"
    MONTH = "30d"
    MONTH_TO_DATE = "mtd"
    LAST_MONTH = "last-month"


# Enough for any chart, little enough for any database.
LONGEST: Mapping[Bucket, timedelta] = {
    Bucket.MINUTE: timedelta(days=1),
    Bucket.HOUR: timedelta(days=32),
    Bucket.DAY: timedelta(days=400),
}
LONGEST_BY_MINUTES = timedelta(days=7)
"""By hours that have to be summed from minutes, of which there are too many in a month."""
GROUPS = (*DIMENSIONS, *NAMED)
DAILY_GROUPS = frozenset(NAMED)
"""Too many for hours: what callers name is counted by whole days alone."""
HOURLY_GROUPS = frozenset({"team", "key"})
"""Too many for minutes: these are counted by hours and days."""
FILTERS = ("route", "pool", "model", "project")
"""What minutes are counted by, so that usage can be had of one of these alone."""
EVERYWHERE = "project"
"""The filter that goes with every group: each row of every roll-up is of one project."""


class Source(StrEnum):
    """Which roll-up something is read from."""

    DAYS = "the day roll-up"
    HOURS = "the hour roll-up"
    MINUTES = "the minute roll-up"


_HOUR = timedelta(hours=1)
_HOURS_SHOWN = 24
_DAYS: Mapping[Range, int] = {Range.WEEK: 7, Range.MONTH: 30}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What is asked: a half-open range, its buckets, one grouping or none, how many groups.

    `only` keeps what went to one route, pool, model or project, each by id or name.
    """

    since: datetime
    until: datetime
    bucket: Bucket
    group_by: str | None = None
    top: int = 20
    measure: Measure = Measure.REQUESTS
    only: Mapping[str, str] = field(default_factory=dict)


def source_of(query: UsageQuery, zone: ZoneInfo) -> Source:
    """The coarsest roll-up that answers a question; `zone` is the organisation's."""
    if query.group_by in DAILY_GROUPS:
        return Source.DAYS
    if query.bucket is Bucket.MINUTE or set(query.only) - {EVERYWHERE}:
        return Source.MINUTES
    if query.bucket is Bucket.DAY and is_whole_days(query.since, query.until, zone):
        return Source.DAYS
    ends = (query.since.astimezone(UTC), query.until.astimezone(UTC))
    if query.group_by in HOURLY_GROUPS or ends == whole_hours(*ends, zone):
        return Source.HOURS
    return Source.MINUTES


def range_of(query: UsageQuery, source: Source, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The range that is summed: the one asked for, or the whole days or hours that it touches."""
    since, until = query.since.astimezone(UTC), query.until.astimezone(UTC)
    if source is Source.DAYS:
        return whole_days(since, until, zone)
    if source is Source.HOURS:
        return whole_hours(since, until, zone)
    return since, until


def ends_of(named: Range, now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Where a named range begins and ends, in UTC."""
    today = now.astimezone(zone).date()
    if named is Range.HOURS:
        until = hour_of(now, zone) + _HOUR
        return until - _HOURS_SHOWN * _HOUR, until
    if named is Range.LAST_MONTH:
        return midnight(_month_before(today), zone), midnight(today.replace(day=1), zone)
    tomorrow = today + timedelta(days=1)
    if named is Range.MONTH_TO_DATE:
        return midnight(today.replace(day=1), zone), midnight(tomorrow, zone)
    return midnight(tomorrow - timedelta(days=_DAYS[named]), zone), midnight(tomorrow, zone)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins in a zone, in UTC."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def whole_hours(since: datetime, until: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The hours of a zone's clock that a range touches, whole."""
    last = hour_of(until - timedelta(microseconds=1), zone)
    return hour_of(since, zone), last + _HOUR


def whole_days(since: datetime, until: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The days of a zone that a range touches, whole."""
    first = since.astimezone(zone).date()
    last = (until.astimezone(UTC) - timedelta(microseconds=1)).astimezone(zone).date()
    return midnight(first, zone), midnight(last + timedelta(days=1), zone)


def is_whole_days(since: datetime, until: datetime, zone: ZoneInfo) -> bool:
    """Whether a range is made of whole days of a zone."""
    return (since.astimezone(UTC), until.astimezone(UTC)) == whole_days(since, until, zone)


def check(query: UsageQuery) -> None:
    """Raise Invalid for a range or grouping that can't be had."""
    if query.until <= query.since:
        raise Invalid.field("to", "This must be later than `from`.")
    longest = LONGEST[query.bucket]
    # a day of the zone may have 25 hours
    if query.until - query.since > longest + _HOUR:
        raise Invalid.field("from", f"By {query.bucket} at most {longest.days} days can be had.")
    is_filtered = bool(set(query.only) - {EVERYWHERE})
    is_too_long = query.until - query.since > LONGEST_BY_MINUTES + _HOUR
    if query.bucket is Bucket.HOUR and is_filtered and is_too_long:
        told = f"By hour, of one route, pool or model, at most {LONGEST_BY_MINUTES.days} days"
        raise Invalid.field("from", f"{told} can be had; ask for days.")
    if query.group_by in DAILY_GROUPS and query.bucket is not Bucket.DAY:
        raise Invalid.field("bucket", f"Usage by {query.group_by} is counted by day alone.")
    if query.group_by in HOURLY_GROUPS and query.bucket is Bucket.MINUTE:
        raise Invalid.field("bucket", f"Usage by {query.group_by} is counted by hour and day.")
    if is_filtered and query.group_by in {"key", *DAILY_GROUPS}:
        raise Invalid.field(
            "group_by", f"Usage by {query.group_by} can be filtered by {EVERYWHERE} alone."
        )


def _month_before(day: date) -> date:
    return (day.replace(day=1) - timedelta(days=1)).replace(day=1)

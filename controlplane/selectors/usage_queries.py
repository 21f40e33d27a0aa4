"""Questions about usage: a range by name or by its ends, its buckets and groups. Pure.

Ranges are half-open and told in one zone: the organisation's, or UTC where only whole UTC days are
counted. Every end is returned in UTC, so that differences are real durations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from controlplane.decisions.rollups import DIMENSIONS
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
GROUPS = DIMENSIONS
# Too many for minutes: these are counted by whole UTC days alone.
DAILY_GROUPS = frozenset({"team", "key"})
DAYS_ZONE = ZoneInfo("UTC")
# What minutes are counted by, so that usage can be had of one of these alone.
FILTERS = ("route", "pool", "model", "project")

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


def zone_of(group_by: str | None, zone: ZoneInfo) -> ZoneInfo:
    """The zone such a question's days are counted in; `zone` is the organisation's."""
    return DAYS_ZONE if group_by in DAILY_GROUPS else zone


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


def hour_of(at: datetime, zone: ZoneInfo) -> datetime:
    """When the hour of a zone's clock began that this time is in, in UTC."""
    local = at.astimezone(zone)
    past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return at.astimezone(UTC) - past


def whole_days(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The UTC days that a range touches, whole."""
    first = since.astimezone(UTC).date()
    last = (until.astimezone(UTC) - timedelta(microseconds=1)).date()
    return midnight(first, DAYS_ZONE), midnight(last + timedelta(days=1), DAYS_ZONE)


def is_whole_days(since: datetime, until: datetime) -> bool:
    """Whether a range is made of whole UTC days."""
    return (since.astimezone(UTC), until.astimezone(UTC)) == whole_days(since, until)


def check(query: UsageQuery) -> None:
    """Raise Invalid for a range or grouping that can't be had."""
    if query.until <= query.since:
        raise Invalid.field("to", "This must be later than `from`.")
    longest = LONGEST[query.bucket]
    # a day of the zone may have 25 hours
    if query.until - query.since > longest + _HOUR:
        raise Invalid.field("from", f"By {query.bucket} at most {longest.days} days can be had.")
    if query.group_by in DAILY_GROUPS and query.bucket is not Bucket.DAY:
        raise Invalid.field("bucket", f"Usage by {query.group_by} is counted by day alone.")
    if query.only and query.group_by == "key":
        raise Invalid.field("group_by", "Usage by key is counted whole, and can't be filtered.")


def _month_before(day: date) -> date:
    return (day.replace(day=1) - timedelta(days=1)).replace(day=1)

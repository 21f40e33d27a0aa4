"""Reads of usage: roll-ups for callers, and what the recorder needs to know."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Case, F, Model, QuerySet, Sum, TextField, Value, When
from django.db.models.functions import Trunc

from controlplane.decisions.rollups import DIMENSIONS
from controlplane.errors import Invalid
from controlplane.models import (
    CatalogueModel,
    JournalMark,
    Key,
    Organisation,
    Pool,
    Project,
    Team,
    UsageDay,
    UsageMinute,
)
from controlplane.selectors.access import Access

SUMS = (
    "requests",
    "errors",
    "attempts",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost_nanousd",
    "unknown_usage",
    "unknown_cost",
)


class Bucket(StrEnum):
    """How long the stretches are that usage is summed over."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


# Enough for any chart, little enough for any database.
LONGEST: Mapping[Bucket, timedelta] = {
    Bucket.MINUTE: timedelta(days=1),
    Bucket.HOUR: timedelta(days=32),
    Bucket.DAY: timedelta(days=400),
}
GROUPS = DIMENSIONS
# Too many for minutes: these are counted by whole UTC days alone.
DAILY_GROUPS = frozenset({"team", "key"})


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """What is asked: a half-open range, its buckets, one grouping or none, how many groups."""

    since: datetime
    until: datetime
    bucket: Bucket
    group_by: str | None = None
    top: int = 20


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One group's sums in one bucket that begins at `at`. A value of None is all others."""

    at: datetime
    value: str | None
    label: str
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The answer. Buckets and groups without usage are absent; `zone` is that of the buckets."""

    zone: ZoneInfo
    rows: Sequence[UsageRow]


def get_usage(access: Access, organisation: Organisation, query: UsageQuery) -> Usage:
    """Sum an organisation's usage. Raises Invalid for a range or grouping that can't be had."""
    _check(query)
    if query.group_by in DAILY_GROUPS:
        zone = ZoneInfo("UTC")
        found = _summed(_days_of(access, organisation, query), F("day"), "value", query.top)
    else:
        zone = ZoneInfo(organisation.time_zone)
        at = Trunc("minute", query.bucket.value, tzinfo=zone)
        group = f"{query.group_by}_id" if query.group_by else None
        found = _summed(_minutes_of(access, organisation, query), at, group, query.top)
    labels = _labels(access, organisation, query.group_by, {row["group"] for row in found})
    return Usage(zone, [_row(row, query, zone, labels) for row in found])


def _check(query: UsageQuery) -> None:
    if query.until <= query.since:
        raise Invalid.field("to", "This must be later than `from`.")
    longest = LONGEST[query.bucket]
    if query.until - query.since > longest:
        raise Invalid.field("from", f"By {query.bucket} at most {longest.days} days can be had.")
    if query.group_by in DAILY_GROUPS and query.bucket is not Bucket.DAY:
        raise Invalid.field("bucket", f"Usage by {query.group_by} is counted by day alone.")


def _minutes_of(
    access: Access, organisation: Organisation, query: UsageQuery
) -> QuerySet[UsageMinute]:
    rows = access.visible(UsageMinute.objects.filter(organisation_id=organisation.pk))
    return rows.filter(minute__gte=query.since, minute__lt=query.until)


def _days_of(access: Access, organisation: Organisation, query: UsageQuery) -> QuerySet[UsageDay]:
    """The UTC days that lie in the range, the last one also if it only begins in it."""
    since, until = query.since.astimezone(UTC), query.until.astimezone(UTC)
    rows = access.visible(UsageDay.objects.filter(organisation_id=organisation.pk))
    return rows.filter(
        dimension=query.group_by,
        day__gte=since.date(),
        day__lte=(until - timedelta(microseconds=1)).date(),
    )


def _summed(rows: QuerySet[Any], at: Any, value: str | None, top: int) -> list[dict[str, Any]]:
    """Sums by bucket and group: the groups with most requests, the others as one."""
    group: Any = Value(None, output_field=TextField())
    sums = {f"sum_{name}": Sum(name) for name in SUMS}
    if value is not None:
        totals = rows.values(value).annotate(total=Sum("requests")).order_by("-total", value)
        largest = [row[value] for row in totals[:top]]
        group = Case(When(**{f"{value}__in": largest}, then=F(value)), default=Value(None))
    grouped = rows.annotate(bucket=at, group=group).values("bucket", "group")
    return list(grouped.annotate(**sums).order_by("bucket", "group"))


def _row(
    row: Mapping[str, Any], query: UsageQuery, zone: ZoneInfo, labels: Mapping[str, str]
) -> UsageRow:
    at, value = row["bucket"], row["group"]
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day, tzinfo=zone)
    others = "Other" if query.group_by else "All"
    label = others if value is None else labels.get(value) or value or "None"
    return UsageRow(at, value, label, {name: int(row[f"sum_{name}"]) for name in SUMS})


def _labels(
    access: Access, organisation: Organisation, dimension: str | None, values: Collection[Any]
) -> dict[str, str]:
    """The names these values had when last seen, also of what was deleted since."""
    if dimension is None:
        return {}
    days = access.visible(UsageDay.objects.filter(organisation_id=organisation.pk))
    known = days.filter(dimension=dimension, value__in=[one for one in values if one])
    latest = known.order_by("value", "-day").distinct("value")
    return dict(latest.values_list("value", "label"))


def list_labels(
    access: Access, organisation: Organisation, dimensions: Sequence[str], since: datetime
) -> dict[str, list[tuple[str, str]]]:
    """What was used since: by dimension, value and name, for suggestions."""
    days = access.visible(UsageDay.objects.filter(organisation_id=organisation.pk))
    recent = days.filter(dimension__in=dimensions, day__gte=since.astimezone(UTC).date())
    rows = recent.exclude(value="").order_by("dimension", "value", "-day")
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in dimensions}
    latest = rows.distinct("dimension", "value")
    for dimension, value, label in latest.values_list("dimension", "value", "label"):
        found[dimension].append((value, label))
    return found


def get_labels_of_day(
    access: Access, organisation: Organisation, day: date, values: Mapping[str, str]
) -> dict[str, str]:
    """The names one value each of some dimensions had on a day, where known."""
    days = access.visible(UsageDay.objects.filter(organisation_id=organisation.pk, day=day))
    rows = days.filter(dimension__in=values, value__in=values.values()).exclude(label="")
    return {row.dimension: row.label for row in rows if values[row.dimension] == row.value}


def get_names(ids: Collection[str]) -> dict[str, str]:
    """The names of these pools, models, projects, teams and keys, of whatever organisation.

    For the recorder alone, which serves all. Keys go by their public id, as events do.
    """
    named: tuple[type[Model], ...] = (Pool, CatalogueModel, Project, Team)
    keys = Key.objects.filter(id__in=[f"key_{one}" for one in ids]).values_list("id", "name")
    others = [kind._default_manager.filter(pk__in=ids).values_list("id", "name") for kind in named]
    found = dict(keys.union(*others, all=True))
    return {one.removeprefix("key_"): name for one, name in found.items()}


def get_marks() -> dict[str, int]:
    """Up to where each journal is in the ledger. For the recorder alone."""
    return dict(JournalMark.objects.values_list("journal", "mark"))

"""Reads of usage: roll-ups for callers, and what the recorder needs to know.

Sums come from roll-ups alone, so that no page can hurt the ledger however large it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import (
    Case,
    DateTimeField,
    F,
    Func,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Substr, Trunc

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
from controlplane.models.keys import key_pk
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import (
    DAILY_GROUPS,
    Bucket,
    Measure,
    UsageQuery,
    check,
    hour_of,
    is_whole_days,
    whole_days,
    zone_of,
)

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
NO_SUMS: Mapping[str, int] = dict.fromkeys(SUMS, 0)

_RANKS: Mapping[Measure, Any] = {
    Measure.REQUESTS: Sum("requests"),
    Measure.TOKENS: Sum("prompt_tokens") + Sum("completion_tokens"),
    Measure.COST: Sum("cost_nanousd"),
}


class Source(StrEnum):
    """Which roll-up a total was read from."""

    DAYS = "the day roll-up"
    MINUTES = "the minute roll-up"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One group's sums in one bucket that begins at `at`. A value of None is all others."""

    at: datetime
    value: str | None
    label: str
    sums: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The answer. Buckets and groups without usage are absent; `zone` is that of the buckets.

    `since` and `until` are the range that was summed: whole UTC days where only those are counted.
    `total` was read beside the rows, ungrouped and from `source`, at the same moment.
    """

    zone: ZoneInfo
    since: datetime
    until: datetime
    rows: Sequence[UsageRow]
    total: Mapping[str, int]
    source: Source

    @property
    def is_reconciled(self) -> bool:
        """Whether the rows add up to the total, in every figure."""
        return self.total == sum_of(self.rows)


def sum_of(rows: Collection[UsageRow]) -> Mapping[str, int]:
    """The sums of some rows."""
    return {name: sum(row.sums[name] for row in rows) for name in SUMS}


def get_usage(access: Access, organisation: Organisation, query: UsageQuery) -> Usage:
    """Sum an organisation's usage. Raises Invalid for a range or grouping that can't be had."""
    check(query)
    zone = zone_of(query.group_by, ZoneInfo(organisation.time_zone))
    since, until = query.since.astimezone(UTC), query.until.astimezone(UTC)
    if query.group_by in DAILY_GROUPS:
        since, until = whole_days(since, until)
    reader = _Reader(access, organisation, since, until, query.only)
    rows, group = reader.rows(query, zone)
    witness, source = reader.witness(query, is_days=rows.model is UsageDay)
    found = list(_summed(rows, group, query).union(_total(witness), all=True))
    total = next(row for row in found if row["is_total"])
    grouped = [row for row in found if not row["is_total"]]
    labels = _labels(organisation, query.group_by, {row["group"] for row in grouped})
    return Usage(
        zone=zone,
        since=since,
        until=until,
        rows=sorted(
            (_row(row, query, labels) for row in grouped),
            key=lambda row: (row.at, row.value is None, row.value or ""),
        ),
        total=_sums(total),
        source=source,
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """The roll-ups of one organisation that a caller may see, in one range, of some values."""

    access: Access
    organisation: Organisation
    since: datetime
    until: datetime
    only: Mapping[str, str]

    def rows(self, query: UsageQuery, zone: ZoneInfo) -> tuple[QuerySet[Any], str | None]:
        """What to sum, with its `bucket`, and the column to group by."""
        if self._is_by_days(query, zone):
            days = self.days(query.group_by or "route").annotate(
                bucket=Trunc(
                    Cast("day", DateTimeField()), "day", DateTimeField(), tzinfo=ZoneInfo("UTC")
                )
            )
            return days, "value" if query.group_by else None
        minutes = self.minutes().annotate(bucket=_bucket_of(query.bucket, self.since, zone))
        if query.group_by == "team":
            team = Project.objects.filter(pk=OuterRef("project_id")).values("team_id")
            minutes = minutes.annotate(
                team_id=Coalesce(Subquery(team), Value(""), output_field=TextField())
            )
        return minutes, f"{query.group_by}_id" if query.group_by else None

    def witness(self, query: UsageQuery, *, is_days: bool) -> tuple[QuerySet[Any], Source]:
        """What the total is read from: where possible, not what the rows are read from."""
        if self.only or not is_whole_days(self.since, self.until):
            return self.minutes(), Source.MINUTES
        own = is_days and query.group_by == "project"
        return self.days("team" if own else "project"), Source.DAYS

    def minutes(self) -> QuerySet[UsageMinute]:
        rows = UsageMinute.objects.filter(organisation_id=self.organisation.pk)
        mine = self.access.visible_in_scope(rows, project_field="project_id")
        mine = mine.filter(minute__gte=self.since, minute__lt=self.until)
        for dimension, asked in self.only.items():
            # by the names its values had since then: what is deleted keeps its usage
            named = UsageDay.objects.filter(
                organisation_id=self.organisation.pk,
                day__gte=self.since.date(),
                dimension=dimension,
                label=asked,
            ).values("value")
            column = f"{dimension}_id"
            mine = mine.filter(Q(**{column: asked}) | Q(**{f"{column}__in": named}))
        return mine

    def days(self, dimension: str) -> QuerySet[UsageDay]:
        mine = _visible_days(self.access, self.organisation, (dimension,))
        return mine.filter(day__gte=self.since.date(), day__lt=self.until.date())

    def _is_by_days(self, query: UsageQuery, zone: ZoneInfo) -> bool:
        """Whether the day roll-up will do, which has a row where the other has a thousand.

        It tells routes, pools, models and teams of the whole organisation alone.
        """
        if query.group_by == "key":
            return True
        if self.only or not self.access.reads_organisation(self.organisation.pk):
            return False
        is_utc = query.bucket is Bucket.DAY and zone.key == "UTC"
        return query.group_by == "team" or (is_utc and is_whole_days(self.since, self.until))


def _visible_days(
    access: Access, organisation: Organisation, dimensions: Sequence[str]
) -> QuerySet[UsageDay]:
    """What a caller may see of these dimensions of the day roll-up.

    Roles in teams and projects reach their projects and the keys of those.
    """
    rows = UsageDay.objects.filter(organisation_id=organisation.pk, dimension__in=dimensions)
    if access.reads_organisation(organisation.pk):
        return rows
    projects = sorted(access.project_ids(organisation.pk))
    keys = Key.objects.filter(project_id__in=projects).values(
        public_id=Substr("id", len("key_") + 1)
    )
    return rows.filter(
        Q(dimension="project", value__in=projects) | Q(dimension="key", value__in=keys)
    )


def _bucket_of(bucket: Bucket, since: datetime, zone: ZoneInfo) -> Any:
    """When a minute's bucket began.

    Hours are counted in real time from an hour of the zone's clock, so that an hour the clock shows
    twice is two buckets.
    """
    if bucket is Bucket.MINUTE:
        return F("minute")
    if bucket is Bucket.DAY:
        return Trunc("minute", "day", tzinfo=zone)
    first = Value(hour_of(since, zone), output_field=DateTimeField())
    hour = Value("1 hour", output_field=TextField())
    return Func(
        Func(hour, template="%(expressions)s::interval"),
        F("minute"),
        first,
        function="date_bin",
        output_field=DateTimeField(),
    )


def _summed(rows: QuerySet[Any], column: str | None, query: UsageQuery) -> QuerySet[Any]:
    """Sums by bucket and group: the largest groups, the others as one."""
    group: Any = Value(None, output_field=TextField())
    if column is not None:
        ranked = rows.values(column).annotate(rank=_RANKS[query.measure]).order_by("-rank", column)
        largest = [row[column] for row in ranked[: query.top]]
        group = Case(When(**{f"{column}__in": largest}, then=F(column)), default=Value(None))
    named = rows.annotate(group=group, is_total=Value(False))
    return named.order_by().values("bucket", "group", "is_total").annotate(**_sum_columns())


def _total(rows: QuerySet[Any]) -> QuerySet[Any]:
    nothing = rows.annotate(
        bucket=Value(None, output_field=DateTimeField()),
        group=Value(None, output_field=TextField()),
        is_total=Value(True),
    )
    return nothing.order_by().values("bucket", "group", "is_total").annotate(**_sum_columns())


def _sum_columns() -> dict[str, Any]:
    return {f"sum_{name}": Coalesce(Sum(name), 0) for name in SUMS}


def _sums(row: Mapping[str, Any]) -> Mapping[str, int]:
    return {name: int(row[f"sum_{name}"]) for name in SUMS}


def _row(row: Mapping[str, Any], query: UsageQuery, labels: Mapping[str, str]) -> UsageRow:
    group = row["group"]
    # a key goes by its public id in the roll-ups, as in events
    value = key_pk(group) if group and query.group_by == "key" else group
    others = "Other" if query.group_by else "All"
    label = others if group is None else labels.get(group) or value or "None"
    return UsageRow(row["bucket"], value, label, _sums(row))


def _labels(
    organisation: Organisation, dimension: str | None, values: Collection[Any]
) -> dict[str, str]:
    """The names these values had when last seen, also of what was deleted since.

    The values are of rows the caller sees, so their names are the caller's to see too.
    """
    if dimension is None:
        return {}
    days = UsageDay.objects.filter(organisation_id=organisation.pk)
    known = days.filter(dimension=dimension, value__in=[one for one in values if one])
    latest = known.order_by("value", "-day").distinct("value")
    return dict(latest.values_list("value", "label"))


def list_labels(
    access: Access, organisation: Organisation, dimensions: Sequence[str], since: datetime
) -> dict[str, list[tuple[str, str]]]:
    """What was used since: by dimension, value and name, for suggestions."""
    days = _visible_days(access, organisation, dimensions)
    recent = days.filter(day__gte=since.astimezone(UTC).date())
    rows = recent.exclude(value="").order_by("dimension", "value", "-day")
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in dimensions}
    latest = rows.distinct("dimension", "value")
    for dimension, value, label in latest.values_list("dimension", "value", "label"):
        found[dimension].append((value, label))
    return found


def get_labels_of_day(
    access: Access, organisation: Organisation, day: date, values: Mapping[str, str]
) -> dict[str, str]:
    """The names one value each of some dimensions had on a day, where known.

    Of a row the caller sees: its names are the caller's to see too.
    """
    days = access.visible(UsageDay.objects.filter(organisation_id=organisation.pk, day=day))
    rows = days.filter(dimension__in=values, value__in=values.values()).exclude(label="")
    return {row.dimension: row.label for row in rows if values[row.dimension] == row.value}


def get_names(ids: Collection[str]) -> dict[str, str]:
    """The names of these pools, models, projects, teams and keys, of whatever organisation.

    For the recorder alone, which serves all. Keys go by their public id, as events do.
    """
    named: tuple[type[Model], ...] = (Pool, CatalogueModel, Project, Team)
    keys = Key.objects.filter(id__in=[key_pk(one) for one in ids]).values_list("id", "name")
    others = [kind._default_manager.filter(pk__in=ids).values_list("id", "name") for kind in named]
    found = dict(keys.union(*others, all=True))
    return {one.removeprefix("key_"): name for one, name in found.items()}


def get_marks() -> dict[str, int]:
    """Up to where each journal is in the ledger. For the recorder alone."""
    return dict(JournalMark.objects.values_list("journal", "mark"))

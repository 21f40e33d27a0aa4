"""The roll-ups as questions about usage read them: which rows, in which buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import (
    BooleanField,
    Case,
    DateTimeField,
    F,
    Func,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Trunc

from controlplane.decisions.rollups import NamedKind, hour_of
from controlplane.models import (
    Organisation,
    Project,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageNamed,
)
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import (
    EVERYWHERE,
    Bucket,
    Measure,
    Source,
    UsageQuery,
    is_whole_days,
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
RANKS: Mapping[Measure, Any] = {
    Measure.REQUESTS: Sum("requests"),
    Measure.TOKENS: Sum("prompt_tokens") + Sum("completion_tokens"),
    Measure.COST: Sum("cost_nanousd"),
}
SEVERAL = "(several)"
"""Stands for what requests with several tags count more than once; no tag can be called that."""

Read = tuple[Sequence[Mapping[str, Any]], Mapping[str, Any], Source]
"""Rows, their total, and what the total was read from."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The roll-ups of one organisation that a caller may see, in one range, of some values."""

    access: Access
    organisation: Organisation
    since: datetime
    until: datetime
    only: Mapping[str, str]
    zone: ZoneInfo

    def rows(self, query: UsageQuery, source: Source) -> tuple[QuerySet[Any], str | None]:
        """What to sum, with its `bucket`, and the column to group by."""
        if source is Source.MINUTES:
            minutes = self.minutes().annotate(bucket=self._bucket("minute", query.bucket))
            if query.group_by == "team":
                team = Project.objects.filter(pk=OuterRef("project_id")).values("team_id")
                minutes = minutes.annotate(
                    team_id=Coalesce(Subquery(team), Value(""), output_field=TextField())
                )
            return minutes, f"{query.group_by}_id" if query.group_by else None
        rows = self.bucketed(query.group_by or "route", query, source)
        return rows, "value" if query.group_by else None

    def bucketed(self, dimension: str, query: UsageQuery, source: Source) -> QuerySet[Any]:
        """Hours or days by one dimension, with their `bucket`."""
        if source is Source.DAYS:
            bucket: Any = Cast("day", DateTimeField())
        else:
            bucket = self._bucket("hour", query.bucket)
        return self.of(dimension, source).annotate(bucket=bucket)

    def ranked(self, query: UsageQuery, source: Source) -> Sequence[str]:
        """The largest values of the grouping, one more than are asked for if there are more."""
        is_by_days = is_whole_days(self.since, self.until, self.zone)
        rows = self.of(query.group_by or "", Source.DAYS if is_by_days else source)
        sums = rows.values("value").annotate(rank=RANKS[query.measure]).order_by("-rank", "value")
        return [row["value"] for row in sums[: query.top + 1]]

    def witness(self, query: UsageQuery, source: Source) -> tuple[QuerySet[Any], Source]:
        """What the total is read from: where possible, not what the rows are read from."""
        if source is Source.MINUTES:
            if self.only or not is_whole_days(self.since, self.until, self.zone):
                return self.minutes(), Source.MINUTES
            return self.of("project", Source.DAYS), Source.DAYS
        return self.of("team" if query.group_by == "project" else "project", source), source

    def whole(self, query: UsageQuery, source: Source) -> QuerySet[Any]:
        """Everything by bucket, neither from what is grouped nor from what the total is read."""
        other = "route" if query.group_by in ("team", "project") else "team"
        return self.bucketed(other, query, source)

    def of(self, dimension: str, source: Source) -> QuerySet[Any]:
        """Hours or days by one dimension."""
        if source is Source.DAYS:
            days = visible_days(self.access, self.organisation, (dimension,))
            return self._of_project(days).filter(**self._days())
        hours = UsageHour.objects.filter(
            organisation_id=self.organisation.pk,
            dimension=dimension,
            hour__gte=self.since,
            hour__lt=self.until,
        )
        mine = self.access.visible_in_scope(hours, project_field="project_id")
        return self._of_project(mine)

    def named(self, dimension: str) -> QuerySet[UsageNamed]:
        """Days by what callers name."""
        rows = UsageNamed.objects.filter(
            organisation_id=self.organisation.pk, dimension=dimension, **self._days()
        )
        mine = self.access.visible_in_scope(rows, project_field="project_id")
        return self._of_project(mine)

    def minutes(self) -> QuerySet[UsageMinute]:
        """Minutes, as finely as they are kept."""
        rows = UsageMinute.objects.filter(organisation_id=self.organisation.pk)
        mine = self.access.visible_in_scope(rows, project_field="project_id")
        mine = mine.filter(minute__gte=self.since, minute__lt=self.until)
        for dimension, asked in self.only.items():
            mine = mine.filter(**{f"{dimension}_id__in": self._ids(dimension, asked)})
        return mine

    def total(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """One row: the sum of all, without groups or buckets."""
        nothing = rows.annotate(
            bucket=Value(None, output_field=DateTimeField()),
            group=Value(None, output_field=TextField()),
            is_total=Value(True, output_field=BooleanField()),
        )
        return nothing.order_by().values("bucket", "group", "is_total").annotate(**sum_columns())

    def _days(self) -> Mapping[str, Any]:
        first, end = (one.astimezone(self.zone).date() for one in (self.since, self.until))
        return {"day__gte": first, "day__lt": end}

    def _of_project(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        asked = self.only.get(EVERYWHERE)
        if asked is None:
            return rows
        return rows.filter(project_id__in=self._ids(EVERYWHERE, asked))

    def _ids(self, dimension: str, asked: str) -> Sequence[str]:
        """The id, and the values that had this name since then: what is deleted keeps its usage.

        Read before, so that they are a condition of an index, whatever stands before them in it.
        """
        named = UsageDay.objects.filter(
            organisation_id=self.organisation.pk,
            day__gte=self.since.astimezone(self.zone).date(),
            dimension=dimension,
            label=asked,
        )
        return sorted({asked, *named.values_list("value", flat=True)})

    def _bucket(self, column: str, bucket: Bucket) -> Any:
        """When a row's bucket began.

        Hours are counted in real time from an hour of the zone's clock, so that an hour the clock
        shows twice is two buckets.
        """
        if bucket is Bucket.MINUTE:
            return F(column)
        if bucket is Bucket.DAY:
            return Trunc(column, "day", tzinfo=self.zone)
        first = Value(hour_of(self.since, self.zone), output_field=DateTimeField())
        hour = Value("1 hour", output_field=TextField())
        return Func(
            Func(hour, template="%(expressions)s::interval"),
            F(column),
            first,
            function="date_bin",
            output_field=DateTimeField(),
        )


def read_named(reader: Reader, query: UsageQuery) -> Read:
    """Days by tag or end user, and what had none: the day's total without all that had one."""
    dimension = query.group_by or ""
    rows = reader.named(dimension)
    ranked = rows.filter(kind=NamedKind.NAMED.value).values("value")
    largest = ranked.annotate(rank=RANKS[query.measure]).order_by("-rank", "value")[: query.top]
    group = Case(
        When(kind=NamedKind.REPEATED.value, then=Value(SEVERAL)),
        When(
            kind=NamedKind.NAMED.value, value__in=[one["value"] for one in largest], then=F("value")
        ),
        default=Value(None),
        output_field=TextField(),
    )
    days = reader.of("project", Source.DAYS).annotate(
        group=Value("", output_field=TextField()), is_total=Value(False)
    )
    parts = [
        part.annotate(bucket=Cast("day", DateTimeField()))
        .order_by()
        .values("bucket", "group", "is_total")
        .annotate(**sum_columns())
        for part in (rows.annotate(group=group, is_total=Value(False)), days)
    ]
    witness = reader.total(reader.of("team", Source.DAYS))
    found = list(parts[0].union(parts[1], witness, all=True))
    told = [row for row in found if not row["is_total"] and row["group"] != ""]
    whole = [row for row in found if not row["is_total"] and row["group"] == ""]
    return [*told, *without(whole, told)], total_of(found), Source.DAYS


def total_of(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The total among these rows; nothing at all has none, which is as good as 0."""
    return next((row for row in rows if row["is_total"]), {f"sum_{name}": 0 for name in SUMS})


def without(
    whole: Sequence[Mapping[str, Any]], told: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """What is left of each day's total; days of which nothing is have no row."""
    named: dict[Any, dict[str, int]] = {}
    for row in told:
        own = named.setdefault(row["bucket"], dict.fromkeys(SUMS, 0))
        for name in SUMS:
            own[name] += row[f"sum_{name}"]
    left = []
    for day in whole:
        known = named.get(day["bucket"], {})
        rest = {f"sum_{name}": day[f"sum_{name}"] - known.get(name, 0) for name in SUMS}
        if any(rest.values()):
            left.append({**day, **rest})
    return left


def visible_days(
    access: Access, organisation: Organisation, dimensions: Sequence[str]
) -> QuerySet[UsageDay]:
    """What a caller may see of these dimensions of the day roll-up."""
    rows = UsageDay.objects.filter(organisation_id=organisation.pk, dimension__in=dimensions)
    return access.visible_in_scope(rows, project_field="project_id")


def sum_columns() -> dict[str, Any]:
    """The sums of all that is counted."""
    return {f"sum_{name}": Coalesce(Sum(name), 0) for name in SUMS}

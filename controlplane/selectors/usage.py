"""Reads of usage: roll-ups for callers, and what the recorder needs to know.

Sums come from roll-ups alone, so that no page can hurt the ledger however large it is.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Case, F, QuerySet, TextField, Value, When

from controlplane.models import Organisation, UsageDay
from controlplane.models.keys import key_pk
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import (
    DAILY_GROUPS,
    Source,
    UsageQuery,
    check,
    midnight,
    range_of,
    source_of,
)
from controlplane.selectors.usage_rows import (
    RANKS,
    SEVERAL,
    SUMS,
    Read,
    Reader,
    read_named,
    sum_columns,
    total_of,
    visible_days,
    without,
)

NO_SUMS: Mapping[str, int] = dict.fromkeys(SUMS, 0)


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

    `since` and `until` are the range that was summed: whole days where only those are counted.
    `total` was read beside the rows, ungrouped and from `source`, at the same moment; where only
    the minutes tell, as of one route, it is their sum.
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
    zone = ZoneInfo(organisation.time_zone)
    source = source_of(query, zone)
    since, until = range_of(query, source, zone)
    reader = Reader(access, organisation, since, until, query.only, zone)
    if query.group_by in DAILY_GROUPS:
        rows, total, witness = read_named(reader, query)
    else:
        rows, total, witness = _read(reader, query, source)
    labels = _labels(organisation, query.group_by, rows, until.astimezone(zone).date())
    return Usage(
        zone=zone,
        since=since,
        until=until,
        rows=sorted(
            (_row(row, query, labels, zone if source is Source.DAYS else None) for row in rows),
            key=lambda row: (row.at, row.value is None, row.value or ""),
        ),
        total=_sums(total),
        source=witness,
    )


def _read(reader: Reader, query: UsageQuery, source: Source) -> Read:
    rows, group = reader.rows(query, source)
    witness, told_by = reader.witness(query, source)
    total = reader.total(witness)
    if group is None or source is Source.MINUTES:
        summed = _summed(rows, _largest(rows, group, query))
        if told_by is Source.MINUTES:
            # nothing else knows of these rows, and to read them twice would say nothing more
            told = list(summed)
            return told, _added(told), told_by
        found = list(summed.union(total, all=True))
        return [row for row in found if not row["is_total"]], total_of(found), told_by
    largest = reader.ranked(query, source)
    named = _summed(rows.filter(value__in=largest[: query.top]), F("value"))
    if len(largest) <= query.top:
        found = list(named.union(total, all=True))
        return [row for row in found if not row["is_total"]], total_of(found), told_by
    # the rows of the others are many, and what they come to is told by a dimension that has few
    whole = _summed(reader.whole(query, source), _OTHERS)
    found = list(named.union(whole, total, all=True))
    told = [row for row in found if not row["is_total"]]
    kept = [row for row in told if row["group"] is not None]
    others = without([row for row in told if row["group"] is None], kept)
    return [*kept, *others], total_of(found), told_by


def _added(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {f"sum_{name}": sum(row[f"sum_{name}"] for row in rows) for name in SUMS}


_OTHERS: Any = Value(None, output_field=TextField())


def _largest(rows: QuerySet[Any], column: str | None, query: UsageQuery) -> Any:
    """The largest groups by their values, the others as one."""
    if column is None:
        return _OTHERS
    ranked = rows.values(column).annotate(rank=RANKS[query.measure]).order_by("-rank", column)
    largest = [row[column] for row in ranked[: query.top]]
    return Case(When(**{f"{column}__in": largest}, then=F(column)), default=Value(None))


def _summed(rows: QuerySet[Any], group: Any) -> QuerySet[Any]:
    """Sums by bucket and group."""
    named = rows.annotate(group=group, is_total=Value(False))
    return named.order_by().values("bucket", "group", "is_total").annotate(**sum_columns())


def _sums(row: Mapping[str, Any]) -> Mapping[str, int]:
    return {name: int(row[f"sum_{name}"]) for name in SUMS}


def _row(
    row: Mapping[str, Any], query: UsageQuery, labels: Mapping[str, str], days_of: ZoneInfo | None
) -> UsageRow:
    group, at = row["group"], row["bucket"]
    # a key goes by its public id in the roll-ups, as in events
    value = key_pk(group) if group and query.group_by == "key" else group
    others = "Other" if query.group_by else "All"
    label = others if group is None else labels.get(group) or value or "None"
    return UsageRow(midnight(at.date(), days_of) if days_of else at, value, label, _sums(row))


def _labels(
    organisation: Organisation,
    dimension: str | None,
    rows: Sequence[Mapping[str, Any]],
    until: date,
) -> dict[str, str]:
    """The names these values had when last seen in the range, also of what was deleted since.

    The values are of rows the caller sees, so their names are the caller's to see too.
    """
    if dimension is None or dimension in DAILY_GROUPS:
        return {SEVERAL: "counted under several tags"}
    values = {row["group"] for row in rows} - {None, ""}
    days = UsageDay.objects.filter(organisation_id=organisation.pk, day__lte=until)
    known = days.filter(dimension=dimension, value__in=values).exclude(label="")
    latest = known.order_by("value", "-day").distinct("value")
    return dict(latest.values_list("value", "label"))


def list_labels(
    access: Access, organisation: Organisation, dimensions: Sequence[str], since: datetime
) -> dict[str, list[tuple[str, str]]]:
    """What was used since: by dimension, value and name, for suggestions."""
    days = visible_days(access, organisation, dimensions)
    recent = days.filter(day__gte=since.astimezone(ZoneInfo(organisation.time_zone)).date())
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

"""Reports: who used what in a range of days, value by value; statements; files; schedules.

They tell of everybody, so they are for roles of the whole organisation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import connection
from django.db.models import DateField, Exists, OuterRef, QuerySet, Value
from django.db.models.functions import Cast

from controlplane.decisions.report_kinds import ReportKind, StatementState
from controlplane.decisions.rollups import NAMED
from controlplane.decisions.statements import Month, Place, StatementLine, Told, summed
from controlplane.models import (
    Organisation,
    ReportExport,
    ReportSchedule,
    Statement,
    StatementRow,
    UsageDay,
)
from controlplane.models.keys import key_pk
from controlplane.selectors.access import Access
from controlplane.selectors.usage_rows import SUMS

MOST_LINES = 500_000
"""More than this is no report or statement any more; it is refused, never cut off."""

_SETTLED = timedelta(minutes=10)
_MONTH = timedelta(days=31)
"""As long as any month: that a day of the next one changed has a month read in vain."""

LABELS = {
    ReportKind.NONE: "None",
    ReportKind.OTHER: "Other",
    ReportKind.SEVERAL: "Counted under several tags",
}

_FIGURES = ", ".join(SUMS)
_SUMMED = ", ".join(f"sum({name})::bigint AS {name}" for name in SUMS)
_PLAIN = f"""
SELECT {{day}} AS day, dimension, CASE WHEN value = '' THEN 'none' ELSE 'value' END AS kind, value,
    (array_agg(label ORDER BY one.day DESC) FILTER (WHERE label <> ''))[1] AS label, {_SUMMED}
FROM controlplane_usageday AS one
WHERE organisation_id = %(organisation)s AND dimension = ANY(%(plain)s)
    AND one.day >= %(since)s AND one.day < %(until)s
GROUP BY 1, 2, 3, 4
"""
_NAMED = f"""
(WITH told AS (
    SELECT {{day}} AS day, dimension,
        CASE kind WHEN 'named' THEN 'value' WHEN 'repeated' THEN 'several' ELSE kind END AS kind,
        value, {_SUMMED}
    FROM controlplane_usagenamed AS one
    WHERE organisation_id = %(organisation)s AND dimension = ANY(%(named)s)
        AND one.day >= %(since)s AND one.day < %(until)s
    GROUP BY 1, 2, 3, 4
), whole AS (
    SELECT {{day}} AS day, {_SUMMED} FROM controlplane_usageday AS one
    WHERE organisation_id = %(organisation)s AND dimension = 'project'
        AND one.day >= %(since)s AND one.day < %(until)s
    GROUP BY 1
)
SELECT day, dimension, kind, value, NULL AS label, {_FIGURES} FROM told
UNION ALL
SELECT whole.day, asked.dimension, 'none', '', NULL,
    {", ".join(f"whole.{name} - COALESCE(named.{name}, 0)" for name in SUMS)}
FROM whole CROSS JOIN unnest(%(named)s::text[]) AS asked(dimension) LEFT JOIN (
    SELECT day, dimension, {_SUMMED} FROM told GROUP BY 1, 2
) AS named ON named.day IS NOT DISTINCT FROM whole.day AND named.dimension = asked.dimension)
"""
_LINES = f"""
SELECT * FROM ({{parts}}) AS line
WHERE ({_FIGURES}) <> ({", ".join("0" for _ in SUMS)})
ORDER BY day, dimension, kind DESC, value LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class ReportLine:
    """What one value used, of one day or, `day` None, of the whole range."""

    day: date | None
    place: Place
    label: str
    figures: Mapping[str, int]


def read_report(
    organisation_id: str, dimension: str, since: date, until: date, *, by_day: bool = False
) -> Sequence[ReportLine]:
    """The lines of [since, until), in days of the organisation's zone; MOST_LINES + 1 at most.

    Values go by the name they had last in the range, also if they are gone since.
    """
    return _read_lines(organisation_id, (dimension,), since, until, "one.day" if by_day else None)


def _read_lines(
    organisation_id: str, dimensions: Sequence[str], since: date, until: date, day: str | None
) -> Sequence[ReportLine]:
    """By one statement, so all is of one moment whatever recorders commit meanwhile."""
    named = [one for one in dimensions if one in NAMED]
    plain = [one for one in dimensions if one not in NAMED]
    parts = " UNION ALL ".join([*([_PLAIN] if plain else []), *([_NAMED] if named else [])])
    values = {
        "organisation": organisation_id,
        "plain": plain,
        "named": named,
        "since": since,
        "until": until,
        "most": MOST_LINES + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LINES.format(parts=parts.format(day=day or "NULL::date")), values)
        return [_line(row) for row in cursor.fetchall()]


def _line(row: tuple[object, ...]) -> ReportLine:
    day, dimension, kind, value, label, *sums = row
    text = str(value)
    told = key_pk(text) if dimension == "key" and text else text
    return ReportLine(
        day=day if isinstance(day, date) else None,
        place=Place(str(dimension), str(kind), told),
        label=LABELS.get(ReportKind(str(kind)), str(label or told)),
        figures={name: int(str(one)) for name, one in zip(SUMS, sums, strict=True)},
    )


def read_month(organisation_id: str, dimensions: Sequence[str], month: date, end: date) -> Month:
    """A month as statements tell it, by all these dimensions at one moment; MOST_LINES + 1."""
    lines = _read_lines(organisation_id, dimensions, month, end, None)
    return {line.place: Told(line.label, line.figures) for line in lines}


def list_statements(access: Access) -> QuerySet[Statement]:
    """Statements, those of months opened again too."""
    return access.visible_organisation_wide(Statement.objects.all())


def list_exports(access: Access) -> QuerySet[ReportExport]:
    """Files that were asked for, without their content."""
    return access.visible_organisation_wide(ReportExport.objects.defer("content"))


def list_schedules(access: Access) -> QuerySet[ReportSchedule]:
    """Reports that are sent by a calendar."""
    rows = ReportSchedule.objects.select_related("channel", "organisation")
    return access.visible_organisation_wide(rows)


def get_closed(organisation: Organisation, month: date) -> Statement | None:
    """The month's statement, if it is closed."""
    rows = Statement.objects.filter(organisation=organisation, month=month)
    return rows.filter(state=StatementState.CLOSED.value).first()


def list_closed_months(organisation_id: str) -> Sequence[date]:
    """The months that are closed, the earliest first."""
    rows = Statement.objects.filter(
        organisation_id=organisation_id, state=StatementState.CLOSED.value
    )
    return list(rows.order_by("month").values_list("month", flat=True))


def list_changed_months(organisation_id: str, months: Sequence[date]) -> Sequence[date]:
    """Those of these closed months to which anything may have come since they were closed.

    What is committed late was begun within _SETTLED, and so was the reading of what was closed.
    """
    closed = Statement.objects.filter(
        organisation_id=organisation_id, state=StatementState.CLOSED.value, month__in=months
    )
    days = UsageDay.objects.filter(
        organisation_id=organisation_id,
        dimension="project",
        day__gte=OuterRef("month"),
        day__lt=Cast(OuterRef("month") + Value(_MONTH), DateField()),
        changed_at__gte=OuterRef("created_at") - Value(_SETTLED),
    )
    return list(closed.filter(Exists(days)).order_by("month").values_list("month", flat=True))


def read_told(organisation_id: str, dimensions: Sequence[str], month: date) -> Month:
    """What closed statements say of a month by these dimensions, adjustments included."""
    rows = StatementRow.objects.filter(
        dimension__in=dimensions,
        statement__organisation_id=organisation_id,
        statement__state=StatementState.CLOSED.value,
        of_month=month,
    )
    return summed(_told_lines(rows.order_by("statement__month", "pk")))


def list_lines(statement: Statement, dimension: str) -> Sequence[StatementLine]:
    """A statement's lines by one dimension: its own month first, the dearest first."""
    rows = StatementRow.objects.filter(statement=statement, dimension=dimension)
    return list(_told_lines(rows.order_by("-of_month", "-cost_nanousd", "kind", "value")))


def _told_lines(rows: QuerySet[StatementRow]) -> Iterator[StatementLine]:
    for row in rows.iterator():
        figures = {name: getattr(row, name) for name in SUMS}
        place = Place(row.dimension, row.kind, row.value)
        yield StatementLine(place, row.label, row.of_month, figures)

"""A report of a month or of a range of days: as it was closed, or as it is now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Sum

from controlplane.decisions.statements import StatementLine, lines_of
from controlplane.errors import Invalid, NotAllowed
from controlplane.models import Organisation, Statement, UsageDay
from controlplane.selectors.access import Access
from controlplane.selectors.reports import (
    MOST_LINES,
    get_closed,
    list_changed_months,
    list_closed_months,
    list_lines,
    read_month,
    read_report,
    read_told,
)
from controlplane.selectors.spend import month_after
from controlplane.selectors.usage_rows import SUMS

LOOKED_BACK = 24
"""Of so many closed months before, what came since is looked for; later than that nothing comes."""

LONGEST = timedelta(days=400)
FOR_WHOLE = "Reports tell of everybody, so they are for roles of the whole organisation."


@dataclass(frozen=True, slots=True)
class Report:
    """Lines by one dimension, the dearest first; those of earlier months are adjustments.

    `month` is None of a range that is none. `statement` is there if the month is closed; then
    nothing in the lines changes any more. `total` sums the lines; `is_reconciled` tells whether
    those of now add up to what another dimension has, None of what was closed.
    """

    since: date
    until: date
    month: date | None
    statement: Statement | None
    lines: Sequence[StatementLine]
    total: Mapping[str, int]
    is_reconciled: bool | None


def get_report(
    access: Access, organisation: Organisation, group_by: str, since: date, until: date
) -> Report:
    """A report of [since, until), days of the organisation's zone. Raises Invalid or NotAllowed."""
    if not access.reads_organisation(organisation.pk):
        raise NotAllowed(FOR_WHOLE)
    if until <= since:
        raise Invalid.field("until", "This must be later than `since`.")
    if until - since > LONGEST:
        raise Invalid.field("since", f"At most {LONGEST.days} days can be had.")
    month = since if since.day == 1 and until == month_after(since) else None
    statement = None if month is None else get_closed(organisation, month)
    if statement is not None:
        lines = list_lines(statement, group_by)
    elif month is not None:
        lines = draft_lines(organisation.pk, month, (group_by,))
    else:
        lines = [
            StatementLine(one.place, one.label, since, one.figures)
            for one in read_report(organisation.pk, group_by, since, until)
        ]
    if len(lines) > MOST_LINES:
        raise Invalid.field("since", "There are too many lines; ask for a shorter range.")
    own = _total(one for one in lines if one.of_month == since)
    witness = "team" if group_by == "project" else "project"
    return Report(
        since=since,
        until=until,
        month=month,
        statement=statement,
        lines=sorted(lines, key=_rank),
        total=_total(lines),
        is_reconciled=None
        if statement is not None
        else own == _beyond_told(organisation.pk, witness, since, until, month=month),
    )


def draft_lines(
    organisation_id: str, month: date, dimensions: Sequence[str]
) -> Sequence[StatementLine]:
    """What a statement of this month would say now, by these dimensions; Invalid if too much.

    All dimensions of a month are of one moment. Months are read one after the other: a line is what
    is there beyond what was told of its own month, so each thing is told once all the same. A
    closed month to which nothing came since has no such line, and isn't read.
    """
    closed = [one for one in list_closed_months(organisation_id) if one < month][-LOOKED_BACK:]
    earlier = list_changed_months(organisation_id, closed)
    lines: list[StatementLine] = []
    for one in (*earlier, month):
        now = read_month(organisation_id, dimensions, one, month_after(one))
        lines += lines_of(one, now, read_told(organisation_id, dimensions, one))
        if max(len(now), len(lines)) > MOST_LINES:
            raise Invalid.field("month", f"It has more than {MOST_LINES:,} lines.")
    return lines


def _beyond_told(
    organisation_id: str, dimension: str, since: date, until: date, *, month: date | None
) -> Mapping[str, int]:
    """What another dimension has of the range, less what closed statements say of the month."""
    rows = UsageDay.objects.filter(
        organisation_id=organisation_id, dimension=dimension, day__gte=since, day__lt=until
    )
    sums = rows.aggregate(**{f"all_{name}": Sum(name) for name in SUMS})
    told = {} if month is None else read_told(organisation_id, (dimension,), month)
    before = _sums(line.figures for line in told.values())
    return {name: int(sums[f"all_{name}"] or 0) - before[name] for name in SUMS}


def _total(lines: Iterable[StatementLine]) -> Mapping[str, int]:
    return _sums(line.figures for line in lines)


def _sums(figures: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    told = list(figures)
    return {name: sum(one.get(name, 0) for one in told) for name in SUMS}


def _rank(line: StatementLine) -> tuple[int, int, str]:
    """Of the newest month first, the dearest first."""
    return -line.of_month.toordinal(), -line.figures["cost_nanousd"], line.label

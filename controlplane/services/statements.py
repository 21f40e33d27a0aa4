"""Months closed and opened again. What a statement says is written once and never changed."""

from collections.abc import Sequence
from datetime import date, datetime
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from controlplane.decisions.report_kinds import StatementState
from controlplane.decisions.rollups import DIMENSIONS, NAMED
from controlplane.decisions.statements import StatementLine
from controlplane.errors import Conflict, Invalid
from controlplane.models import Organisation, Statement, StatementRow
from controlplane.selectors.reports import list_closed_months
from controlplane.selectors.spend import month_after
from controlplane.selectors.statements import draft_lines
from controlplane.services import edits, rows
from controlplane.services.actors import Actor

NOUN = "statements"

_BATCH = 2_000


def close_month(
    actor: Actor, *, organisation: Organisation, month: date, now: datetime | None = None
) -> Statement:
    """Freeze a month that is over, with what came to earlier closed ones since.

    Nobody who records waits for it. Raises Invalid for a month that is not over or has too many
    lines, Conflict for one that is closed.
    """
    at = now or timezone.now()
    if month.day != 1:
        raise Invalid.field("month", "A month is named by its first day.")
    if month_after(month) > at.astimezone(ZoneInfo(organisation.time_zone)).date():
        raise Invalid.field("month", "The month is not over yet.")
    with transaction.atomic():
        # one at a time for an organisation: two that close months at once would adjust twice
        rows.lock(Organisation, organisation.pk)
        months = list_closed_months(organisation.pk)
        if month in months:
            raise Conflict("The month is closed already.")
        lines = draft_lines(organisation.pk, month, (*DIMENSIONS, *NAMED))
        statement = Statement.objects.create(
            organisation=organisation,
            month=month,
            number=_next_number(organisation, month),
            time_zone=organisation.time_zone,
            closed_by=actor.label[:255],
            closed_reason=actor.reason,
        )
        _write(statement, lines)
        edits.note(
            actor,
            "close",
            NOUN,
            statement,
            after={"month": f"{month:%Y-%m}", "number": statement.number, "lines": len(lines)},
        )
    return statement


def reopen_month(
    actor: Actor, *, statement_id: str, expected_version: int | None = None
) -> Statement:
    """Open a closed month again; its statement stays as it was. Raises Invalid without a reason."""
    if not actor.reason:
        raise Invalid.field("reason", "Say why the month is opened again.")
    with transaction.atomic():
        # a month that is being closed has read which others are
        home = Statement.objects.filter(pk=statement_id).values_list("organisation_id", flat=True)
        rows.lock(Organisation, home.first() or "")
        statement = rows.lock(Statement, statement_id, expected_version=expected_version)
        if statement.state != StatementState.CLOSED.value:
            raise Conflict("The month was opened again already.")
        changed = rows.change(
            statement,
            {
                "state": StatementState.REOPENED.value,
                "reopened_at": timezone.now(),
                "reopened_by": actor.label[:255],
                "reopened_reason": actor.reason,
            },
        )
        assert changed is not None
        edits.note(actor, "reopen", NOUN, statement, before=changed[0], after=changed[1])
    return statement


def _next_number(organisation: Organisation, month: date) -> int:
    mine = Statement.objects.filter(organisation=organisation, month=month)
    return (mine.aggregate(last=Max("number"))["last"] or 0) + 1


def _write(statement: Statement, lines: Sequence[StatementLine]) -> None:
    made = [
        StatementRow(
            statement=statement,
            dimension=line.place.dimension,
            kind=line.place.kind,
            value=line.place.value,
            label=line.label,
            of_month=line.of_month,
            **line.figures,
        )
        for line in lines
    ]
    StatementRow.objects.bulk_create(made, batch_size=_BATCH)

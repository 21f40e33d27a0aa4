"""Reports that are sent by a calendar: edited, and each period's sent once."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import structlog
from django.db import transaction
from django.utils import timezone

from controlplane.decisions.alert_kinds import DeliveryKind
from controlplane.decisions.report_calendar import Period, due_period
from controlplane.decisions.report_kinds import Cadence
from controlplane.decisions.report_words import report_content
from controlplane.errors import Invalid
from controlplane.models import Channel, Organisation, ReportRun, ReportSchedule
from controlplane.selectors.reports import MOST_LINES, read_report
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.deliveries import queue

log = structlog.get_logger(__name__)

NOUN = "report_schedules"

RUNS_KEPT = timedelta(days=800)
"""Longer than any period, so that none is ever sent again."""

_EDITABLE = frozenset(("name", "group_by", "cadence", "hour", "channel", "is_enabled"))
_RESTARTS = frozenset(("cadence", "hour", "is_enabled", "channel"))
"""A change of these begins anew: nothing is sent for what ended before."""


def create_schedule(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    group_by: str,
    cadence: str,
    channel: Channel,
    hour: int = 7,
    is_enabled: bool = True,
) -> ReportSchedule:
    """Have a report sent after each period from now on. Raises Invalid."""
    _refuse_foreign(organisation.pk, channel)
    with transaction.atomic():
        schedule = rows.insert(
            ReportSchedule(
                organisation=organisation,
                name=name,
                group_by=group_by,
                cadence=cadence,
                channel=channel,
                hour=hour,
                is_enabled=is_enabled,
            )
        )
        edits.note(actor, "create", NOUN, schedule, after=edits.values_of(schedule))
    return schedule


def update_schedule(
    actor: Actor,
    *,
    schedule_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> ReportSchedule:
    """Change what is named; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with transaction.atomic():
        schedule = rows.lock(ReportSchedule, schedule_id, expected_version=expected_version)
        if "channel" in changes:
            _refuse_foreign(schedule.organisation_id, changes["channel"])
        changed = rows.change(schedule, changes)
        if changed is not None:
            before, after = changed
            if _RESTARTS & set(after):
                schedule.since = timezone.now()
                schedule.save(update_fields=["since"])
            edits.note(actor, "update", NOUN, schedule, before=before, after=after)
    return schedule


def delete_schedule(actor: Actor, *, schedule_id: str, expected_version: int | None = None) -> None:
    """Send it no more."""
    with transaction.atomic():
        schedule = rows.lock(ReportSchedule, schedule_id, expected_version=expected_version)
        before = edits.values_of(schedule)
        rows.remove(schedule)
        edits.note(actor, "delete", NOUN, schedule, before=before)


def send_due(now: datetime) -> Sequence[str]:
    """Queue the reports that are due and return their schedules; each period's is queued once.

    Whoever inserts the run's row queues the message, in one transaction, however many jobs ask. Of
    several periods that passed meanwhile only the newest is sent. A schedule that fails is logged,
    holds up no other, and is tried again by the next job.
    """
    sent = []
    wanted = ReportSchedule.objects.filter(is_enabled=True, channel__is_enabled=True)
    for schedule in wanted.select_related("organisation", "channel").order_by("pk"):
        try:
            if _send_newest(schedule, now):
                sent.append(schedule.pk)
        except Exception:
            log.exception("scheduled report could not be sent", schedule=schedule.pk)
    return sent


def _send_newest(schedule: ReportSchedule, now: datetime) -> bool:
    zone = ZoneInfo(schedule.organisation.time_zone)
    period = due_period(Cadence(schedule.cadence), schedule.hour, now, zone)
    return period.sent_at >= schedule.since and _send(schedule, period, now)


def _send(schedule: ReportSchedule, period: Period, now: datetime) -> bool:
    runs = ReportRun.objects.filter(schedule=schedule, period=period.since, until=period.until)
    if runs.exists():
        return False
    lines = read_report(schedule.organisation_id, schedule.group_by, period.since, period.until)
    if len(lines) > MOST_LINES:
        raise Invalid(f"It has more than {MOST_LINES:,} lines.")
    content = report_content(
        schedule.name, schedule.group_by, schedule.organisation.time_zone, period, lines
    )
    with transaction.atomic():
        made = ReportRun.objects.bulk_create(
            [ReportRun(schedule=schedule, period=period.since, until=period.until, at=now)],
            ignore_conflicts=True,
        )
        # only the row that went in has a number of its own
        mine = runs.select_for_update().get()
        if mine.delivery_id or not made:
            return False
        assert schedule.channel is not None
        delivery = queue(schedule.channel, DeliveryKind.REPORT, content, now=now)
        mine.delivery_id = delivery.pk
        mine.save(update_fields=["delivery_id"])
    return True


def forget_old_runs(now: datetime) -> int:
    """Remove the rows of periods long over; returns how many."""
    removed, _ = ReportRun.objects.filter(at__lt=now - RUNS_KEPT).delete()
    return removed


def _refuse_foreign(organisation_id: str, channel: Channel | None) -> None:
    if channel is not None and channel.organisation_id not in (None, organisation_id):
        raise Invalid.field("channel", "There is no such channel.")

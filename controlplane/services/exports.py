"""Files of reports: asked for, made by a job, there for a week."""

from datetime import date, datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.decisions.report_kinds import ExportFormat, ExportState, ReportPart
from controlplane.errors import Invalid
from controlplane.models import Organisation, ReportExport
from controlplane.services import audit
from controlplane.services.actors import Actor

CONTENT_KEPT = timedelta(days=7)
ROWS_KEPT = timedelta(days=90)

GONE_AFTER = timedelta(seconds=120)
"""A job that didn't move its file on for so long is not running any more."""

LONGEST = timedelta(days=400)
MOST_BYTES = 64 << 20
MOST_WAITING = 20
"""So many of one organisation may wait at once."""


def request_export(
    actor: Actor,
    *,
    organisation: Organisation,
    group_by: str,
    since: date,
    until: date,
    part: ReportPart = ReportPart.WHOLE,
    file_format: ExportFormat = ExportFormat.CSV,
) -> ReportExport:
    """Ask for a file of usage by value; a job makes it. Raises Invalid."""
    if until <= since:
        raise Invalid.field("until", "This must be later than `since`.")
    if until - since > LONGEST:
        raise Invalid.field("since", f"At most {LONGEST.days} days can be had.")
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        waiting = ReportExport.objects.filter(
            organisation=organisation, state__in=(ExportState.QUEUED, ExportState.RUNNING)
        )
        if waiting.count() >= MOST_WAITING:
            raise Invalid("So many files are being made already; wait for one of them.")
        export = ReportExport.objects.create(
            organisation=organisation,
            created_by=actor.label[:255],
            group_by=group_by,
            since=since,
            until=until,
            part=part.value,
            format=file_format.value,
        )
        audit.record(
            actor,
            action="export",
            noun="reports",
            object_id=export.pk,
            organisation_id=organisation.pk,
            after={
                "group_by": group_by,
                "since": str(since),
                "until": str(until),
                "part": part.value,
                "format": file_format.value,
            },
        )
    return export


def take_queued(now: datetime) -> ReportExport | None:
    """Take the one that has waited longest; whoever changes its row makes it."""
    waiting = ReportExport.objects.filter(state=ExportState.QUEUED.value)
    for pk in waiting.order_by("created_at").values_list("pk", flat=True)[:10]:
        mine = ReportExport.objects.filter(pk=pk, state=ExportState.QUEUED.value)
        if mine.update(state=ExportState.RUNNING.value, beat_at=now):
            return ReportExport.objects.select_related("organisation").get(pk=pk)
    return None


def note_progress(export: ReportExport, *, done: int, total: int) -> None:
    """Say how far it is."""
    _running(export).update(done=done, total=total, beat_at=timezone.now())


def conclude(export: ReportExport, content: bytes, *, lines: int) -> None:
    """Write down the file, or that it is larger than files may be."""
    if len(content) > MOST_BYTES:
        give_up(export, f"It is larger than {MOST_BYTES >> 20} MiB; ask for a shorter range.")
        return
    now = timezone.now()
    _running(export).update(
        state=ExportState.DONE.value,
        content=content,
        size_bytes=len(content),
        lines=lines,
        ended_at=now,
        expires_at=now + CONTENT_KEPT,
    )


def give_up(export: ReportExport, detail: str) -> None:
    """Write down that it could not be made, and why."""
    _running(export).update(state=ExportState.FAILED.value, detail=detail, ended_at=timezone.now())


def fail_abandoned(now: datetime) -> int:
    """End those whose job is gone; returns how many."""
    lost = ReportExport.objects.filter(
        state=ExportState.RUNNING.value, beat_at__lt=now - GONE_AFTER
    )
    return lost.update(
        state=ExportState.FAILED.value, detail="The job that made it has ended.", ended_at=now
    )


def forget_old_exports(now: datetime) -> int:
    """Remove contents that expired, and rows that are old; returns how many of both."""
    expired = ReportExport.objects.filter(expires_at__lte=now, content__isnull=False)
    gone = expired.update(content=None)
    removed, _ = ReportExport.objects.filter(created_at__lt=now - ROWS_KEPT).delete()
    return gone + removed


def _running(export: ReportExport) -> QuerySet[ReportExport]:
    return ReportExport.objects.filter(pk=export.pk, state=ExportState.RUNNING.value)

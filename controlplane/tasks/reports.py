"""Reports: files made one at a time, what is due sent, what is old forgotten."""

from billiard.exceptions import SoftTimeLimitExceeded
from celery import shared_task
from django.utils import timezone

from controlplane.bridge.report_files import make_file
from controlplane.errors import ControlPlaneError
from controlplane.services import exports, schedules


@shared_task(name="reports.make_files")
def make_files() -> str | None:
    """Make the file that has waited longest; returns its id."""
    now = timezone.now()
    exports.fail_abandoned(now)
    export = exports.take_queued(now)
    if export is None:
        return None
    try:
        content, lines = make_file(
            export, lambda done, total: exports.note_progress(export, done=done, total=total)
        )
        exports.conclude(export, content, lines=lines)
    except SoftTimeLimitExceeded:
        exports.give_up(export, "It took longer than a job may; ask for a shorter range.")
    except ControlPlaneError as error:
        exports.give_up(export, error.detail)
    except Exception:
        exports.give_up(export, "An error of ours ended it; the log has more.")
        raise
    return export.pk


@shared_task(name="reports.send_due")
def send_due() -> int:
    """Queue the scheduled reports that are due; returns how many."""
    return len(schedules.send_due(timezone.now()))


@shared_task(name="reports.forget_old")
def forget_old() -> int:
    """Remove files that expired and what is old."""
    now = timezone.now()
    return exports.forget_old_exports(now) + schedules.forget_old_runs(now)

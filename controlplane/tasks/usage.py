"""Upkeep of what the recorder leaves behind."""

from celery import shared_task
from django.utils import timezone

from controlplane.bridge import marks


@shared_task(name="usage.forget_old_marks")
def forget_old_marks() -> int:
    """Remove the marks of journals that are long gone."""
    return marks.forget_old_marks(timezone.now())

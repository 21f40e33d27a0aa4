"""Upkeep of what the recorder leaves behind."""

from celery import shared_task
from django.utils import timezone

from controlplane.bridge import marks
from controlplane.services import usage


@shared_task(name="usage.forget_old_marks")
def forget_old_marks() -> int:
    """Remove the marks of journals that are long gone."""
    return marks.forget_old_marks(timezone.now())


@shared_task(name="usage.forget_rules")
def forget_rules() -> int:
    """Remove what rules took longer ago than anybody asks for."""
    return usage.forget_rules(timezone.now())

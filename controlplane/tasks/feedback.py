"""Upkeep of what people said of answers."""

from celery import shared_task
from django.utils import timezone

from controlplane.services import feedback


@shared_task(name="feedback.forget")
def forget() -> int:
    """Remove what was said longer ago than it is kept."""
    return feedback.forget_feedback(timezone.now())

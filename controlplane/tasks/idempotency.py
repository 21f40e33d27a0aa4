"""Upkeep of the answers kept for repeated requests."""

from celery import shared_task
from django.utils import timezone

from controlplane.services import idempotency


@shared_task(name="idempotency.forget_old_answers")
def forget_old_answers() -> int:
    """Remove the answers that no repeated request will get any more."""
    return idempotency.forget_old_answers(timezone.now())

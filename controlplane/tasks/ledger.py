"""Upkeep of the ledger: its books compared, its old days dropped."""

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from controlplane.services import retention
from controlplane.services.reconciliation import reconcile


@shared_task(name="ledger.reconcile")
def reconcile_books() -> int | None:
    """Compare gateways' counters, journals, ledger and roll-ups; returns the differences."""
    return reconcile(timezone.now())


@shared_task(name="ledger.drop_old_days")
def drop_old_days() -> int:
    """Drop the ledger's rows that are older than the setting says; returns how many days."""
    return len(retention.drop_old_days(timezone.now(), settings.HEADWORKS.ledger_days))

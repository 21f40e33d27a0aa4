"""Budgets: their counters kept true to the ledger, and old accounts forgotten."""

from celery import shared_task
from django.utils import timezone

from controlplane.bridge.budgets import keep_budgets
from controlplane.services import budget_accounts, budget_effects, budget_upkeep


@shared_task(name="budgets.keep")
def keep() -> str:
    """Take the comparison of ledger and state store one step on; one job at a time."""
    return keep_budgets(timezone.now())


@shared_task(name="budgets.forget_old")
def forget_old() -> int:
    """Remove accounts of periods that ended long ago, and corrections made long ago."""
    now = timezone.now()
    return (
        budget_accounts.forget_old_accounts(now)
        + budget_effects.forget_old_effects(now)
        + budget_upkeep.forget_old_corrections(now)
    )

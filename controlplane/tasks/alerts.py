"""Alerts: the looks at all rules, and the messages that follow."""

from celery import shared_task
from django.utils import timezone

from controlplane.alerting.evaluation import evaluate
from controlplane.alerting.outbox import send_due
from controlplane.services import deliveries, episodes, silences


@shared_task(name="alerts.evaluate")
def evaluate_rules() -> int:
    """Look at every rule that is on."""
    return evaluate(timezone.now())


@shared_task(name="alerts.deliver")
def deliver() -> int:
    """Send the messages that are due."""
    return send_due(timezone.now)


@shared_task(name="alerts.forget_old")
def forget_old() -> int:
    """Remove messages, alerts and silences that are long over."""
    now = timezone.now()
    return deliveries.forget_old(now) + episodes.forget_old(now) + silences.forget_old(now)

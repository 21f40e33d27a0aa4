"""Kill switches whose time is over."""

from celery import shared_task
from django.utils import timezone

from controlplane.services import switches


@shared_task(name="switches.remove_expired")
def remove_expired() -> int:
    """Remove the switches that gateways pass over already, so that nobody takes them for thrown."""
    return switches.remove_expired_switches(timezone.now())

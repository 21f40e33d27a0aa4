"""Upkeep of the caches' configuration."""

from celery import shared_task
from django.utils import timezone

from controlplane.services import cache_feedback, cache_usage, purges


@shared_task(name="caches.forget_purges")
def forget_purges() -> int:
    """Remove the purges that nothing kept can be older than."""
    return purges.forget_purges(timezone.now())


@shared_task(name="caches.forget_similarities")
def forget_similarities() -> int:
    """Remove how alike hits were longer ago than anybody asks for."""
    return cache_usage.forget_similarities(timezone.now())


@shared_task(name="caches.forget_false_hits")
def forget_false_hits() -> int:
    """Remove the false hits that are older than they are kept."""
    return cache_usage.forget_false_hits(timezone.now())


@shared_task(name="caches.calibrate")
def calibrate() -> int:
    """Raise the thresholds of routes whose hits by meaning are surely false too often."""
    return cache_feedback.calibrate(timezone.now())

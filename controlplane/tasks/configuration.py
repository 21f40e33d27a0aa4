"""Keeping the state store up with the database: what an edit's own publishing may have missed."""

from celery import shared_task

from controlplane.bridge import publisher


@shared_task(name="configuration.republish")
def republish() -> str:
    """Publish the newest version if the store is behind, empty or incomplete."""
    return publisher.publish().value


@shared_task(name="configuration.collect_sections")
def collect_sections() -> int:
    """Let sections of old versions leave the store."""
    return publisher.collect_sections()

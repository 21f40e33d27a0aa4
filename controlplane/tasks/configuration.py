"""Keeping the state store up with the database: what an edit's own publishing may have missed.

And old versions, which leave both.
"""

from celery import shared_task
from django.utils import timezone
from redis.exceptions import RedisError

from controlplane.bridge import epochs, publisher
from controlplane.services import pruning


@shared_task(name="configuration.republish")
def republish() -> str:
    """Publish the newest version if the store is behind, empty or incomplete."""
    return epochs.sweep().value


@shared_task(name="configuration.collect_sections")
def collect_sections() -> int:
    """Let sections of old versions leave the store."""
    return publisher.collect_sections()


@shared_task(name="configuration.prune_revisions")
def prune_revisions() -> int:
    """Remove old versions from the database; none while nobody can tell which is published."""
    try:
        published = publisher.published_version()
    except (RedisError, OSError):
        return 0
    return pruning.prune_revisions(timezone.now(), published)

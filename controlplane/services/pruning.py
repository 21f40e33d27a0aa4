"""Old versions of the configuration leave the database, and the contents only they had."""

from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q

from controlplane.models import ConfigRevision
from controlplane.services.snapshots import configuration_edit

KEPT_REVISIONS = 1_000
"""So many newest versions stay however old: what a quiet installation can go back to."""

KEPT_FOR = timedelta(days=90)
"""All versions of this time stay however many: a quarter is what audits and questions ask for."""

BATCH = 100
"""Versions a transaction, for edits wait while one runs."""

_DELETE_SECTIONS = """
DELETE FROM controlplane_configsection WHERE digest = ANY(%s) AND NOT EXISTS (
    SELECT 1 FROM controlplane_configrevision, jsonb_each_text(manifest) AS named
    WHERE named.value = controlplane_configsection.digest
)
"""


def prune_revisions(now: datetime, published: tuple[str, int] | None) -> int:
    """Delete versions that are old both by number and by time; returns how many.

    `published` is the lineage and version gateways are given, which stays.
    """
    removed = 0
    while found := _prune_batch(now, published):
        removed += found
    return removed


def _prune_batch(now: datetime, published: tuple[str, int] | None) -> int:
    # an edit at the same time could be storing a version that names a section again
    with configuration_edit():
        newest = ConfigRevision.objects.order_by("-id").values_list("id", flat=True)
        oldest_kept = newest[KEPT_REVISIONS - 1 : KEPT_REVISIONS].first()
        if oldest_kept is None:
            return 0
        rows = ConfigRevision.objects.filter(id__lt=oldest_kept, created_at__lt=now - KEPT_FOR)
        if published is not None:
            lineage, version = published
            rows = rows.exclude(Q(lineage=lineage, version=version))
        batch = list(rows.order_by("id")[:BATCH])
        digests = {digest for one in batch for digest in one.manifest.values()}
        ConfigRevision.objects.filter(pk__in=[one.pk for one in batch]).delete()
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_SECTIONS, [sorted(digests)])
        return len(batch)

"""The audit trail as a caller may see it."""

from collections.abc import Collection, Mapping

from django.db.models import QuerySet

from controlplane.models import AuditEntry
from controlplane.selectors.access import Access


def list_audit(access: Access) -> QuerySet[AuditEntry]:
    """Changes in organisations the caller reads all of; platform administrators see all."""
    return access.visible_organisation_wide(AuditEntry.objects.all())


def list_newest_entries(
    access: Access, noun: str, object_ids: Collection[str]
) -> Mapping[str, AuditEntry]:
    """The newest change of each of these objects, by its id; by one query."""
    rows = list_audit(access).filter(noun=noun, object_id__in=list(object_ids))
    newest = rows.order_by("object_id", "-id").distinct("object_id") if object_ids else rows.none()
    return {entry.object_id: entry for entry in newest}

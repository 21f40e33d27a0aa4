"""The audit trail as a caller may see it."""

from collections.abc import Collection, Mapping

from django.db.models import Q, QuerySet

from controlplane.models import AuditEntry
from controlplane.selectors.access import Access


def list_audit(access: Access) -> QuerySet[AuditEntry]:
    """Changes in organisations the caller reads all of; platform administrators see all."""
    return access.visible_organisation_wide(AuditEntry.objects.all())


def list_audit_of(access: Access, organisation_id: str) -> QuerySet[AuditEntry]:
    """Changes of one organisation; for platform administrators the platform's own among them.

    Those belong to no organisation: gateways that were drained, a configuration that was adopted.
    """
    wanted = Q(organisation_id=organisation_id)
    if access.is_platform_admin:
        wanted |= Q(organisation_id=None)
    return list_audit(access).filter(wanted)


def list_newest_entries(
    access: Access, noun: str, object_ids: Collection[str]
) -> Mapping[str, AuditEntry]:
    """The newest change of each of these objects, by its id; by one query."""
    rows = list_audit(access).filter(noun=noun, object_id__in=list(object_ids))
    newest = rows.order_by("object_id", "-id").distinct("object_id") if object_ids else rows.none()
    return {entry.object_id: entry for entry in newest}

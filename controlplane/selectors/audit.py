"""The audit trail as a caller may see it."""

from django.db.models import QuerySet

from controlplane.models import AuditEntry
from controlplane.selectors.access import Access


def list_audit(access: Access) -> QuerySet[AuditEntry]:
    """Changes in organisations the caller reads all of; platform administrators see all."""
    return access.visible_organisation_wide(AuditEntry.objects.all())

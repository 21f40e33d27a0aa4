"""Versions of the configuration as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import ConfigRevision
from controlplane.selectors.access import Access


def list_revisions(access: Access) -> QuerySet[ConfigRevision]:
    """Versions that edits of the caller's organisations made; platform administrators see all."""
    return access.visible(ConfigRevision.objects.defer("manifest"))

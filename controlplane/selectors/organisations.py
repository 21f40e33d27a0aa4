"""Organisations as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Organisation
from controlplane.selectors.access import Access, found


def list_organisations(access: Access) -> QuerySet[Organisation]:
    """Organisations the caller knows of."""
    return access.visible(Organisation.objects.all(), "id")


def get_organisation(access: Access, organisation_id: str) -> Organisation:
    """One organisation, or NotFound."""
    return found(list_organisations(access), organisation_id)

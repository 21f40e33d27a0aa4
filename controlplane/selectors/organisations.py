"""Organisations as a caller may see them."""

from django.db.models import QuerySet

from controlplane.errors import NotFound
from controlplane.models import Organisation
from controlplane.selectors.access import Access


def list_organisations(access: Access) -> QuerySet[Organisation]:
    """Organisations the caller knows of."""
    return access.visible(Organisation.objects.all(), "id")


def get_organisation_named(asked: str) -> Organisation:
    """The organisation of this name or id, or NotFound. For commands, which may see all."""
    rows = Organisation.objects
    row = rows.filter(pk=asked).first() or rows.filter(name=asked).first()
    if row is None:
        raise NotFound(f"There is no organisation {asked!r}.")
    return row

"""Models as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import CatalogueModel
from controlplane.selectors.access import Access


def list_models(access: Access) -> QuerySet[CatalogueModel]:
    """Models of the catalogue."""
    return access.visible(CatalogueModel.objects.all())

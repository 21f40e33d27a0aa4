"""Models as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import CatalogueModel
from controlplane.selectors.access import Access, found


def list_models(access: Access) -> QuerySet[CatalogueModel]:
    """Models of the catalogue."""
    return access.visible(CatalogueModel.objects.all())


def get_model(access: Access, model_id: str) -> CatalogueModel:
    """One model, or NotFound."""
    return found(list_models(access), model_id)

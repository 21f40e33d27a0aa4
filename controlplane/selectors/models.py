"""Models as a caller may see them."""

from django.db.models import Prefetch, QuerySet

from controlplane.models import CatalogueModel, Pool
from controlplane.selectors.access import Access


def list_models(access: Access) -> QuerySet[CatalogueModel]:
    """Models of the catalogue."""
    return access.visible(CatalogueModel.objects.all())


def list_models_served(access: Access) -> QuerySet[CatalogueModel]:
    """Models with their price, if any, and the pools that serve them."""
    pools = Pool.objects.only("name", "model", "power", "replicas").order_by("name")
    return list_models(access).select_related("price").prefetch_related(Prefetch("pools", pools))

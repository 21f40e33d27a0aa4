"""Models as a caller may see them."""

from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from controlplane.models import CatalogueModel, Pool, Price
from controlplane.selectors.access import Access
from controlplane.selectors.prices import input_price


def list_models(access: Access) -> QuerySet[CatalogueModel]:
    """Models of the catalogue."""
    return access.visible(CatalogueModel.objects.all())


def list_models_served(access: Access) -> QuerySet[CatalogueModel]:
    """Models with their price, if any, and the pools that serve them."""
    pools = Pool.objects.only("name", "model", "power", "replicas").order_by("name")
    prices = Price.objects.filter(removed_at__isnull=True, pool__isnull=True)
    versions = Prefetch("prices", prices.prefetch_related("versions"))
    found = list_models(access).annotate(price_input=input_price("pk", timezone.now()))
    return found.prefetch_related(Prefetch("pools", pools), versions)

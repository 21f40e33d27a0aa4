"""Prices as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Price
from controlplane.selectors.access import Access


def list_prices(access: Access) -> QuerySet[Price]:
    """Prices with their model."""
    return access.visible(Price.objects.select_related("model"))

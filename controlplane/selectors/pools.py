"""Pools as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Pool
from controlplane.selectors.access import Access


def list_pools(access: Access) -> QuerySet[Pool]:
    """Pools with their model."""
    return access.visible(Pool.objects.select_related("model"))

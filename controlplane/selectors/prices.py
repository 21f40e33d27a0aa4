"""The price book as a caller may see it."""

from datetime import datetime

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from controlplane.models import Price, PriceVersion
from controlplane.selectors.access import Access


def list_prices(access: Access) -> QuerySet[Price]:
    """Prices that weren't removed, with their model, pool and versions, the newest first."""
    versions = PriceVersion.objects.order_by("-effective_from")
    found = Price.objects.filter(removed_at__isnull=True).select_related("model", "pool")
    return access.visible(found.prefetch_related(Prefetch("versions", versions)))


def input_price(model: str, now: datetime, *, pool: str | None = None) -> Combinable:
    """What a prompt of an outer query's model costs now, None where it has no price.

    `model` is the outer column of the model's id, `pool` that of the pool whose own price goes
    before the model's.
    """
    found = PriceVersion.objects.filter(
        price__model_id=OuterRef(model), price__removed_at__isnull=True, effective_from__lte=now
    ).order_by("-effective_from")
    amount = "input_nanousd_per_mtok"
    of_model = Subquery(found.filter(price__pool__isnull=True).values(amount)[:1])
    if pool is None:
        return of_model
    own = found.filter(price__pool_id=OuterRef(pool))
    return Coalesce(Subquery(own.values(amount)[:1]), of_model)

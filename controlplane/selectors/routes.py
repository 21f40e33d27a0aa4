"""Routes as a caller may see them."""

from django.db.models import Prefetch, QuerySet

from controlplane.models import Route, RouteTarget
from controlplane.selectors.access import Access


def list_routes(access: Access) -> QuerySet[Route]:
    """Routes with their targets in order, and the targets' pools."""
    targets = RouteTarget.objects.select_related("pool").order_by("position")
    return access.visible(Route.objects.prefetch_related(Prefetch("targets", targets)))

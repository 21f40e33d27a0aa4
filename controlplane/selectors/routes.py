"""Routes as a caller may see them."""

from django.db.models import Prefetch, QuerySet

from controlplane.models import Route, RouteTarget
from controlplane.selectors.access import Access


def list_routes(access: Access) -> QuerySet[Route]:
    """Routes with their targets in order, and the targets' pools."""
    targets = RouteTarget.objects.select_related("pool").order_by("position")
    return access.visible(Route.objects.prefetch_related(Prefetch("targets", targets)))


def get_rule_name(access: Access, route_id: str | None, rule_id: str | None) -> str | None:
    """The name of a route's rule, None if there is none or the caller may not know of it."""
    if route_id is None or rule_id is None:
        return None
    found = access.visible(Route.objects.filter(pk=route_id)).first()
    rules = [] if found is None else found.rules
    return next((str(rule["name"]) for rule in rules if rule["id"] == rule_id), None)

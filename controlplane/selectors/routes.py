"""Routes as a caller may see them."""

from collections.abc import Sequence

from django.db.models import Prefetch, QuerySet

from controlplane.models import Organisation, Route, RouteTarget
from controlplane.selectors.access import Access


def list_routes(access: Access) -> QuerySet[Route]:
    """Routes with their targets in order, and the targets' pools."""
    targets = RouteTarget.objects.select_related("pool").order_by("position")
    return access.visible(
        Route.objects.select_related("cache_policy").prefetch_related(Prefetch("targets", targets))
    )


def list_ladders(
    access: Access,
    organisation: Organisation,
    *,
    pool_id: str | None = None,
    route_id: str | None = None,
) -> Sequence[tuple[str, str, Sequence[str]]]:
    """Id, name and steps of the routes that degrade, by name; of one pool those that send there.

    A route that is switched off degrades nothing, but is told when it is asked for.
    """
    rows = access.visible(Route.objects.filter(organisation=organisation))
    rows = rows.exclude(degradation=[]).order_by("name")
    rows = rows.filter(is_enabled=True) if route_id is None else rows.filter(pk=route_id)
    found = rows.prefetch_related("targets") if pool_id is not None else rows
    return [
        (row.pk, row.name, tuple(row.degradation))
        for row in found
        if pool_id is None or pool_id in pools_of(row)
    ]


def pools_of(row: Route) -> set[str]:
    """The ids of the pools that its targets and its rules' may go to."""
    own = {one.pool_id for one in row.targets.all()}
    return own | {str(one["pool_id"]) for rule in row.rules for one in rule["targets"]}


def get_rule_name(access: Access, route_id: str | None, rule_id: str | None) -> str | None:
    """The name of a route's rule, None if there is none or the caller may not know of it."""
    if route_id is None or rule_id is None:
        return None
    found = access.visible(Route.objects.filter(pk=route_id)).first()
    rules = [] if found is None else found.rules
    return next((str(rule["name"]) for rule in rules if rule["id"] == rule_id), None)

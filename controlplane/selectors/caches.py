"""Cache policies and purges as a caller may see them."""

from collections.abc import Iterable, Mapping

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet

from controlplane.models import CachePolicy, Purge, Route
from controlplane.selectors.access import Access
from inference.contract.kinds import PurgeKind


def list_policies(access: Access) -> QuerySet[CachePolicy]:
    """Policies with `route_names`, the routes that have each, by name."""
    having = Route.objects.filter(cache_policy_id=OuterRef("pk")).order_by("name")
    names = ArraySubquery(having.values("name"))
    return access.visible(CachePolicy.objects.annotate(route_names=names))


def list_purges(access: Access) -> QuerySet[Purge]:
    """Purges of organisations the caller reads all of."""
    return access.visible_organisation_wide(Purge.objects.all())


def list_policy_names(access: Access, purges: Iterable[Purge]) -> Mapping[str, str]:
    """The names of the policies that these purges are about, by id, while they are there."""
    asked = {one.value for one in purges if one.kind == PurgeKind.POLICY}
    rows = access.visible(CachePolicy.objects.filter(pk__in=asked)) if asked else ()
    return {row.pk: row.name for row in rows}

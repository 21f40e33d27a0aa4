"""The page of service levels: how each route keeps its objectives."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import SERVICE_LEVELS
from controlplane.console.tables.service_levels import LevelTable
from controlplane.console.views.alerts import HIDDEN, TabPage
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.routes import list_routes
from controlplane.selectors.service_levels import read_levels


class LevelList(TabPage):
    noun = SERVICE_LEVELS
    tab = "service_levels"
    selector = staticmethod(list_routes)
    filters = RouteFilters
    table = LevelTable
    api_place = ListPage.api_place
    is_created_here = False
    hidden_filters = HIDDEN | {"name"}
    intro = "What routes promise, how they kept it for 30 days, and how fast they miss it now"
    empty = Empty(
        "There is no route yet",
        "Each route has objectives from its first day on: 99.99 % answered, the first token in "
        "200 ms for half of the streams and in 2 s for 99 in 100.",
    )

    def rows(self) -> QuerySet[Any]:
        return list_routes(self.scope.access).filter(organisation_id=self.scope.organisation.pk)

    def extra(self, table: NounTable) -> dict[str, Any]:
        shown = [row.record for row in table.paginated_rows]
        found = read_levels(shown, timezone.now())
        table.levels = {one.route.pk: one for one in found}  # type: ignore[attr-defined]
        return super().extra(table)

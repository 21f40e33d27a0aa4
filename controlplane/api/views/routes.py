"""Routes by REST."""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.routes import RouteSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.models import Organisation
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.routes import list_routes
from controlplane.services.routes import TargetChoice, create_route, delete_route, update_route
from inference.contract.params import TARGET_BOUNDS


class RouteView(Bulk, Creating, Changing, Removing):
    noun = "routes"
    selector = staticmethod(list_routes)
    serializer_class = RouteSerializer
    filterset_class = RouteFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        targets = _choices(values.pop("targets"))
        return create_route(self.actor, organisation=organisation, targets=targets, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        if "targets" in changes:
            changes = {**changes, "targets": _choices(changes["targets"])}
        update_route(
            self.actor, route_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_route(self.actor, route_id=row.pk, expected_version=expected_version)


def _choices(targets: Iterable[Mapping[str, Any]]) -> list[TargetChoice]:
    return [
        TargetChoice(
            **{name: value for name, value in target.items() if name not in TARGET_BOUNDS},
            timeouts={name: target[name] for name in TARGET_BOUNDS if name in target},
        )
        for target in targets
    ]

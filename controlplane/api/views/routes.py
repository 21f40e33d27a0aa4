"""Routes by REST."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.route_splits import SplitSerializer
from controlplane.api.serializers.routes import RouteSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.compiler import rules_of
from controlplane.errors import NotAllowed
from controlplane.models import Organisation, Route
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.impact import RuleSplit, list_rule_splits
from controlplane.selectors.routes import list_routes
from controlplane.services.actors import Actor
from controlplane.services.caches import find_policy
from controlplane.services.routes import TargetChoice, create_route, delete_route, update_route
from inference.contract.params import TARGET_BOUNDS


class RouteView(Bulk, Creating, Changing, Removing):
    noun = "routes"
    selector = staticmethod(list_routes)
    serializer_class = RouteSerializer
    filterset_class = RouteFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_route(self.actor, organisation=organisation, **as_edit(organisation, values))

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_route(
            self.actor,
            route_id=row.pk,
            changes=as_edit(row.organisation, changes),
            expected_version=expected_version,
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_route(self.actor, route_id=row.pk, expected_version=expected_version)

    @extend_schema(responses={200: SplitSerializer})
    @action(detail=True, methods=["get"])
    def split(self, request: Request, pk: str) -> Response:
        """Read what each rule took over the last hour and day; for roles of the organisation."""
        route: Route = self.get_object()
        if not self.access.reads_organisation(route.organisation_id):
            raise NotAllowed("What rules took is for roles of the whole organisation.")
        now = timezone.now()
        found = list_rule_splits(self.access, route.organisation, route_id=route.pk, now=now)
        names = {rule.id: rule.name for rule in rules_of(route.rules)}
        spans = [_told(window, split, names) for window, split in found.items()]
        document = {"route_id": route.pk, "as_of": now, "spans": spans}
        return Response(SplitSerializer(document).data)


def _told(window: str, split: RuleSplit, names: Mapping[str, str]) -> dict[str, Any]:
    """One stretch: the rules in their order, then those that are gone, then what none took."""
    ids: list[str | None] = [*names, *sorted(split.by_rule.keys() - names), None]
    taken = {one: split.by_none if one is None else split.by_rule.get(one, 0) for one in ids}
    return {
        "window": window,
        "since": split.since,
        "requests": split.requests,
        "rules": [
            {
                "rule_id": one,
                "name": None if one is None else names.get(one),
                "requests": requests,
                "share": split.share_of(requests),
            }
            for one, requests in taken.items()
        ],
    }


def edit_of(
    actor: Actor, row: Route, changes: Mapping[str, Any], *, at: str
) -> Callable[[], Route]:
    """The edit that a PATCH of these changes would make; raises ValidationError at `at`."""
    serializer = RouteSerializer(row, data=dict(changes), partial=True)
    if not serializer.is_valid():
        problems: Any = serializer.errors
        for name in reversed(at.split(".")):
            problems = {name: problems}
        raise ValidationError(problems)
    edit = as_edit(row.organisation, dict(serializer.validated_data))
    edit.pop("organisation", None)
    return lambda: update_route(actor, route_id=row.pk, changes=edit)


def as_edit(organisation: Organisation, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Validated fields as the service takes them; raises Invalid at `cache_policy`."""
    edit = dict(changes)
    if "cache_policy" in edit:
        edit["cache_policy"] = find_policy(organisation, edit["cache_policy"])
    if "targets" in edit:
        edit["targets"] = _choices(edit["targets"])
    if "rules" in edit:
        edit["rules"] = [{**rule, "targets": _choices(rule["targets"])} for rule in edit["rules"]]
    return edit


def _choices(targets: Iterable[Mapping[str, Any]]) -> list[TargetChoice]:
    return [
        TargetChoice(
            **{name: value for name, value in target.items() if name not in TARGET_BOUNDS},
            timeouts={name: target[name] for name in TARGET_BOUNDS if name in target},
        )
        for target in targets
    ]

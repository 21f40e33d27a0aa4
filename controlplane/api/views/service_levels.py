"""Service levels by REST: how routes keep their objectives."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.service_levels import ServiceLevelSerializer
from controlplane.api.views.tenants import NounView
from controlplane.models import Route
from controlplane.selectors.filters import RouteFilters
from controlplane.selectors.routes import list_routes
from controlplane.selectors.service_levels import Level, read_levels


class ServiceLevelView(NounView):
    """What routes promise and keep; objectives are changed at `/routes/`."""

    noun = "service_levels"
    is_for_whole = True
    selector = staticmethod(list_routes)
    serializer_class = ServiceLevelSerializer
    filterset_class = RouteFilters
    orderings = BY_NAME
    http_method_names = ["get", "head", "options"]

    def get_queryset(self) -> Any:
        """Of organisations the caller reads all of: figures tell of everybody's traffic."""
        return self.access.visible_organisation_wide(super().get_queryset())

    @extend_schema(responses=ServiceLevelSerializer(many=True))
    def list(self, request: Request) -> Response:
        """List how routes keep their objectives."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or ()
        told = ServiceLevelSerializer(levels_of(page), many=True)
        return self.get_paginated_response(told.data)

    @extend_schema(responses=ServiceLevelSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        """Read how one route, by its id, keeps its objectives."""
        (level,) = levels_of([self.get_object()])
        return Response(ServiceLevelSerializer(level).data)


def levels_of(routes: Any) -> list[Level]:
    """The levels of routes in their order, whichever organisations they are of."""
    now = timezone.now()
    by_home: dict[str, list[Route]] = {}
    for route in routes:
        by_home.setdefault(route.organisation_id, []).append(route)
    found = {one.route.pk: one for mine in by_home.values() for one in read_levels(mine, now)}
    return [found[route.pk] for route in routes]

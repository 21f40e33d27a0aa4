"""Live figures by REST: what the live pages show, whole, to be read again as often as wanted."""

from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.live import (
    LiveQuerySerializer,
    LiveSerializer,
    live_document,
)
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import TenantView
from controlplane.errors import NotFound
from controlplane.selectors.live import get_live, span_of
from controlplane.selectors.pools import list_pools
from controlplane.selectors.routes import list_routes


class LiveView(TenantView):
    """Figures of an organisation, or of one of its pools or routes."""

    serializer_class = LiveSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(parameters=[ORGANISATION, LiveQuerySerializer], responses={200: LiveSerializer})
    def list(self, request: Request) -> Response:
        """Read traffic, latency, cost and workers by bucket of time, newest last."""
        asked = LiveQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        values = asked.validated_data
        organisation = organisation_asked(self)
        span = span_of(values["window"], timezone.now(), until=values.get("until"))
        pools = list_pools(self.access).filter(organisation=organisation)
        routes = list_routes(self.access).filter(organisation=organisation)
        pool_id = _id_of(pools, values["pool"]) if "pool" in values else None
        route_id = _id_of(routes, values["route"]) if "route" in values else None
        view = get_live(self.access, organisation, span, pool_id=pool_id, route_id=route_id)
        is_narrow = pool_id is not None or route_id is not None
        shown = pools.filter(pk__in=[one.key for one in view.queues]) if is_narrow else pools
        document = live_document(
            view,
            organisation_id=organisation.pk,
            pool_id=pool_id,
            route_id=route_id,
            priced=dict(shown.values_list("pk", "is_priced")),
        )
        return Response(LiveSerializer(document).data)


def _id_of(rows: QuerySet[Any], asked: str) -> str:
    """The id of the row of this name or id."""
    found = rows.filter(Q(pk=asked) | Q(name=asked)).values_list("pk", flat=True).first()
    if found is None:
        raise NotFound
    return str(found)

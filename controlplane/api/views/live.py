"""Live figures by REST: what the live pages show, whole, to be read again as often as wanted."""

from collections.abc import Mapping

from django.db.models import Q
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
from controlplane.models import Organisation
from controlplane.selectors.live import get_live, span_of
from controlplane.selectors.pools import list_pools


class LiveView(TenantView):
    """Figures of an organisation or of one of its pools."""

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
        pool_id = self._pool_id(organisation, values["pool"]) if "pool" in values else None
        view = get_live(self.access, organisation, span, pool_id=pool_id)
        priced = self._priced(organisation, pool_id)
        document = live_document(
            view, organisation_id=organisation.pk, pool_id=pool_id, priced=priced
        )
        return Response(LiveSerializer(document).data)

    def _priced(self, organisation: Organisation, pool_id: str | None) -> Mapping[str, bool]:
        """Whether the models of these pools have a price."""
        rows = list_pools(self.access).filter(organisation=organisation)
        shown = rows if pool_id is None else rows.filter(pk=pool_id)
        return dict(shown.values_list("pk", "is_priced"))

    def _pool_id(self, organisation: Organisation, asked: str) -> str:
        rows = list_pools(self.access).filter(organisation=organisation)
        found = rows.filter(Q(pk=asked) | Q(name=asked)).values_list("pk", flat=True).first()
        if found is None:
            raise NotFound
        return str(found)

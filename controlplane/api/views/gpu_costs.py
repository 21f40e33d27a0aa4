"""What GPUs cost, by REST: prices of an hour, and own cost beside list price."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.gpu_costs import GpuPriceSerializer, OwnCostsSerializer
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import Creating, Removing, TenantView
from controlplane.errors import Invalid
from controlplane.models import GpuPrice, Organisation, OwnCost
from controlplane.selectors.correction_filters import GpuPriceFilters
from controlplane.selectors.gpu_costs import GROUPS, get_own_costs, list_gpu_prices
from controlplane.services.gpu_prices import create_gpu_price, delete_gpu_price

_SINCE = OpenApiParameter("since", OpenApiTypes.DATETIME, description="Left out: a day ago.")
_UNTIL = OpenApiParameter("until", OpenApiTypes.DATETIME, description="Left out: now.")
_GROUP = OpenApiParameter("group", OpenApiTypes.STR, enum=tuple(GROUPS), description="By what.")
LONGEST = timedelta(days=400)


class GpuPriceView(Creating, Removing):
    noun = "gpu_prices"
    selector = staticmethod(list_gpu_prices)
    queryset = GpuPrice.objects.none()
    serializer_class = GpuPriceSerializer
    filterset_class = GpuPriceFilters
    orderings = BY_ID

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_gpu_price(self.actor, organisation=organisation, **values)

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_gpu_price(self.actor, gpu_price_id=row.pk, expected_version=expected_version)


class OwnCostView(TenantView):
    """What our own GPUs' time cost, by pool, team, project or model."""

    queryset = OwnCost.objects.none()
    serializer_class = OwnCostsSerializer
    pagination_class = None
    filter_backends = ()
    is_for_whole = True

    @extend_schema(parameters=[ORGANISATION, _SINCE, _UNTIL, _GROUP], responses=OwnCostsSerializer)
    def list(self, request: Request) -> Response:
        """Read what the hours that began in [since, until) cost, beside list price."""
        refuse_unknown(request, (ORGANISATION.name, "since", "until", "group"))
        organisation = organisation_asked(self)
        now = timezone.now()
        until = self._moment("until", now)
        since = self._moment("since", until - timedelta(days=1))
        if not timedelta(0) < until - since <= LONGEST:
            raise Invalid.field("since", f"Give up to {LONGEST.days} days before `until`.")
        group = request.query_params.get("group", "pool")
        if group not in GROUPS:
            raise Invalid.field("group", f"Choose from {', '.join(GROUPS)}.")
        found = get_own_costs(self.access, organisation, since=since, until=until, group=group)
        answer = {
            "since": since,
            "until": until,
            "group": group,
            "computed_at": found.computed_at,
            "lines": found.lines,
        }
        return Response(OwnCostsSerializer(answer).data)

    def _moment(self, name: str, default: datetime) -> datetime:
        asked = self.request.query_params.get(name)
        if asked is None:
            return default
        try:
            found = parse_datetime(asked)
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            raise Invalid.field(name, "Give a time with its offset, such as 2026-12-01T00:00:00Z.")
        return found

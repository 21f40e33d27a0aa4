"""What GPUs cost, by REST: prices of an hour, and own cost beside list price."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.gpu_costs import (
    GpuPriceSerializer,
    MarginsSerializer,
    OwnCostsSerializer,
)
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import Creating, Removing, TenantView
from controlplane.errors import Invalid
from controlplane.models import GpuPrice, Organisation, OwnCost
from controlplane.selectors.correction_filters import GpuPriceFilters
from controlplane.selectors.gpu_costs import GROUPS, get_own_costs, list_gpu_prices
from controlplane.selectors.margins import GROUPS as MARGIN_GROUPS
from controlplane.selectors.margins import LONGEST, get_margins
from controlplane.services.gpu_prices import create_gpu_price, delete_gpu_price

_SINCE = OpenApiParameter("since", OpenApiTypes.DATETIME, description="Left out: a day ago.")
_UNTIL = OpenApiParameter("until", OpenApiTypes.DATETIME, description="Left out: now.")
_GROUP = OpenApiParameter("group", OpenApiTypes.STR, enum=tuple(GROUPS), description="By what.")


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


class _OverTime(TenantView):
    """A question about a time, told by a group."""

    pagination_class = None
    filter_backends = ()
    is_for_whole = True
    groups: ClassVar[Collection[str]]
    longest: ClassVar[timedelta]

    def asked(self, request: Request) -> tuple[Organisation, datetime, datetime, str]:
        """The organisation, time and group of the address; raises Invalid."""
        refuse_unknown(request, (ORGANISATION.name, "since", "until", "group"))
        organisation = organisation_asked(self)
        until = self._moment("until", timezone.now())
        since = self._moment("since", until - timedelta(days=1))
        if not timedelta(0) < until - since <= self.longest:
            raise Invalid.field("since", f"Give up to {self.longest.days} days before `until`.")
        group = request.query_params.get("group", next(iter(self.groups)))
        if group not in self.groups:
            raise Invalid.field("group", f"Choose from {', '.join(self.groups)}.")
        return organisation, since, until, group

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


class OwnCostView(_OverTime):
    """What our own GPUs' time cost, by pool, team, project or model."""

    queryset = OwnCost.objects.none()
    serializer_class = OwnCostsSerializer
    groups = GROUPS
    longest = timedelta(days=400)

    @extend_schema(parameters=[ORGANISATION, _SINCE, _UNTIL, _GROUP], responses=OwnCostsSerializer)
    def list(self, request: Request) -> Response:
        """Read what the hours that began in [since, until) cost, beside list price."""
        organisation, since, until, group = self.asked(request)
        found = get_own_costs(self.access, organisation, since=since, until=until, group=group)
        answer = {
            "since": since,
            "until": until,
            "group": group,
            "computed_at": found.computed_at,
            "lines": found.lines,
        }
        return Response(OwnCostsSerializer(answer).data)


class MarginView(_OverTime):
    """What customers are asked for what was served, beside what it was booked at."""

    queryset = OwnCost.objects.none()
    serializer_class = MarginsSerializer
    groups = MARGIN_GROUPS
    longest = LONGEST

    @extend_schema(parameters=[ORGANISATION, _SINCE, _UNTIL, _GROUP], responses=MarginsSerializer)
    def list(self, request: Request) -> Response:
        """Read revenue at customer prices and booked cost of requests that ended on those days.

        The answer says which whole days of the organisation's zone it sums.
        """
        organisation, since, until, group = self.asked(request)
        found = get_margins(self.access, organisation, since=since, until=until, group=group)
        answer = {
            "since": found.since,
            "until": found.until,
            "group": group,
            "lines": found.lines,
        }
        return Response(MarginsSerializer(answer).data)

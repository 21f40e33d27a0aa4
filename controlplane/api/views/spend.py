"""Spending by REST: a month with its forecast, days and groups."""

from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.spend import SpendQuerySerializer, SpendSerializer
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import TenantView
from controlplane.api.views.usage import told_rows
from controlplane.models import Organisation
from controlplane.selectors.spend import Spend, get_spend


class SpendView(TenantView):
    """Roll-ups alone are read, never the requests themselves."""

    serializer_class = SpendSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(parameters=[ORGANISATION, SpendQuerySerializer], responses=SpendSerializer)
    def list(self, request: Request) -> Response:
        """A month of spending by day and group, where it goes, and what is out of the ordinary."""
        asked = SpendQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        organisation = organisation_asked(self)
        query = asked.question(ZoneInfo(organisation.time_zone))
        spend = get_spend(self.access, organisation, query, timezone.now())
        answer = SpendSerializer(_told(spend, organisation)).data
        hours = None if spend.hours is None else told_rows(spend.hours.rows)
        return Response({**answer, "results": told_rows(spend.usage.rows), "hours": hours})


def _told(spend: Spend, organisation: Organisation) -> dict[str, Any]:
    usage = spend.usage
    same = (
        *("spent_nanousd", "previous_nanousd", "nanousd_per_mtok", "nanousd_per_request"),
        *("forecast", "budget", "anomalies", "price_changes"),
    )
    return {
        "from": spend.since,
        "to": spend.until,
        "organisation_id": organisation.pk,
        "month": spend.query.month,
        "time_zone": spend.zone.key,
        "group_by": spend.query.group_by,
        **{name: getattr(spend, name) for name in same},
        "total": usage.total,
        "is_reconciled": usage.is_reconciled,
        "results": [],
        "hours": None,
    }

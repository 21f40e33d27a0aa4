"""Usage by REST: sums of an organisation's requests, by time and group."""

from collections.abc import Iterable
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.usage import (
    UsageQuerySerializer,
    UsageRowSerializer,
    UsageSerializer,
)
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import TenantView
from controlplane.selectors.usage import UsageRow, get_usage


class UsageView(TenantView):
    """Roll-ups alone are read, never the requests themselves."""

    serializer_class = UsageRowSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(parameters=[ORGANISATION, UsageQuerySerializer], responses=UsageSerializer)
    def list(self, request: Request) -> Response:
        """Sum usage by minute, hour or day, and by route, pool, model, project, team or key."""
        asked = UsageQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        organisation = organisation_asked(self)
        query = asked.question(ZoneInfo(organisation.time_zone))
        usage = get_usage(self.access, organisation, query)
        answer = {
            "from": usage.since,
            "to": usage.until,
            "organisation_id": organisation.pk,
            "bucket": query.bucket.value,
            "group_by": query.group_by,
            "time_zone": usage.zone.key,
            "total": usage.total,
            "is_reconciled": usage.is_reconciled,
            "results": [],
        }
        return Response({**UsageSerializer(answer).data, "results": told_rows(usage.rows)})


def told_rows(rows: Iterable[UsageRow]) -> list[dict[str, Any]]:
    """Rows as `UsageRowSerializer` tells them, without its cost: there may be thousands."""
    rows = list(rows)
    moments = {at: f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for at in {row.at for row in rows}}
    return [
        {
            **row.sums,
            "cost_nanousd": str(row.sums["cost_nanousd"]),
            "at": moments[row.at],
            "value": row.value,
            "label": row.label,
        }
        for row in rows
    ]

"""Who runs what by REST: every gateway, and which version of the configuration it is on."""

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.gateways import GatewaysSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.bridge.vitals import read_propagation
from controlplane.decisions.propagation import GatewayFacts


class GatewayView(TenantView):
    """The gateways of the installation, which all organisations share."""

    serializer_class = GatewaysSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses={200: GatewaysSerializer})
    def list(self, request: Request) -> Response:
        """Read on how many gateways the current version is applied, and on which it isn't."""
        refuse_unknown(request, ())
        is_whole = self.access.is_platform_admin or bool(self.access.roles)
        found = read_propagation()
        document: dict[str, Any] = dict.fromkeys(
            ("lineage", "version", "seen", "live", "applied", "gateways")
        )
        if found is not None:
            document |= {
                "lineage": found.lineage,
                "version": found.version,
                "seen": found.seen,
                "live": found.live,
                "applied": found.applied,
                "gateways": [self._told(one) for one in found.gateways] if is_whole else None,
            }
        return Response(GatewaysSerializer({"as_of": timezone.now(), **document}).data)

    def _told(self, gateway: GatewayFacts) -> dict[str, Any]:
        told = asdict(gateway)
        told |= {"is_live": gateway.is_live, "refused_at": gateway.refused_at}
        if not self.access.is_platform_admin:
            told["refused_why"] = None
        return told

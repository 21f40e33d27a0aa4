"""The state of the installation by REST, for administrators."""

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.system import SystemSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.bridge.system import read_system
from controlplane.errors import NotAllowed


class SystemView(TenantView):
    """Every part of the installation: what `/-/status` tells, and what it measures besides."""

    serializer_class = SystemSerializer
    filter_backends = ()
    pagination_class = None

    @extend_schema(responses={200: SystemSerializer})
    def list(self, request: Request) -> Response:
        """Read how every part is; for administrators of the platform or of an organisation."""
        refuse_unknown(request, ())
        if not self.access.is_administrator:
            raise NotAllowed("Only administrators see how the installation is.")
        now = timezone.now()
        told = {"as_of": now, "parts": read_system(now)}
        return Response(SystemSerializer(told).data)

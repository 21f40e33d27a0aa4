"""Gateways by REST: which version of the configuration each is on, and what is wanted of it."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.gateways import GatewaySerializer, GatewaysSerializer
from controlplane.api.views.tenants import TenantView
from controlplane.bridge.gateways import GatewayNow, read_gateways
from controlplane.errors import NotAllowed
from controlplane.services.gateways import update_gateway

_NAME = OpenApiParameter("name", str, OpenApiParameter.PATH, description="As the list tells it.")
_UNSEEN: dict[str, Any] = {
    "is_live": False,
    "is_applied": False,
    "children_live": 0,
    "children_seen": 0,
    **dict.fromkeys(("lineage", "version", "refused_version", "refused_at", "refused_why")),
    **dict.fromkeys(("as_of", "is_draining", "inflight", "restart_generation_reached")),
}
_TOLD = (
    *("is_live", "is_applied", "children_live", "children_seen", "lineage", "version"),
    *("refused_version", "refused_at", "refused_why", "as_of", "is_draining", "inflight"),
)


class GatewayView(TenantView):
    """The gateways of the installation, which all organisations share."""

    serializer_class = GatewaysSerializer
    pagination_class = None
    filter_backends = ()
    lookup_field = lookup_url_kwarg = "name"
    lookup_value_regex = ".+"
    http_method_names = ["get", "patch", "head", "options"]

    @extend_schema(responses={200: GatewaysSerializer})
    def list(self, request: Request) -> Response:
        """Read on how many gateways the current version is applied, and on which it isn't."""
        refuse_unknown(request, ())
        now = read_gateways()
        found = now.propagation
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
                "gateways": [self._told(one) for one in now.gateways] if self._is_whole else None,
            }
        return Response(GatewaysSerializer({"as_of": timezone.now(), **document}).data)

    @extend_schema(
        operation_id="gateways_retrieve_one",
        parameters=[_NAME],
        responses={200: GatewaySerializer},
    )
    def retrieve(self, request: Request, name: str) -> Response:
        """Read one: what is wanted of it and what it says; the ETag is of what is wanted."""
        refuse_unknown(request, ())
        if not self._is_whole:
            raise NotAllowed("Gateways are told of to roles of a whole organisation.")
        return self._shown(name)

    @extend_schema(
        parameters=[_NAME], request=GatewaySerializer, responses={200: GatewaySerializer}
    )
    def partial_update(self, request: Request, name: str) -> Response:
        """Drain it, put it back, or have its processes replaced.

        For platform administrators who are signed in; no token can. It is done when `state` is
        `drained` or `serving`, and `restart_generation_reached` has come to `restart_generation`.
        """
        if not self.access.is_platform_admin:
            raise NotAllowed(
                "Only a platform administrator who is signed in can change gateways; no token can."
            )
        gateway = read_gateways().named(name)
        serializer = GatewaySerializer(self._told(gateway), data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        update_gateway(
            self.actor,
            name=name,
            changes=serializer.validated_data,
            expected_version=self.expected_version(),
        )
        return self._shown(name)

    @property
    def _is_whole(self) -> bool:
        return self.access.is_platform_admin or bool(self.access.roles)

    def _shown(self, name: str) -> Response:
        gateway = read_gateways().named(name)
        told = GatewaySerializer(self._told(gateway)).data
        return Response(told, headers={"ETag": f'"{gateway.version}"'})

    def _told(self, gateway: GatewayNow) -> dict[str, Any]:
        facts = gateway.facts
        told = _UNSEEN if facts is None else {name: getattr(facts, name) for name in _TOLD}
        told = {
            **told,
            "name": gateway.name,
            "is_drained": gateway.is_drained,
            "restart_generation": gateway.restart_generation,
            "restart_generation_reached": None if facts is None else facts.restart_generation,
            "state": gateway.state,
        }
        if not self.access.is_platform_admin:
            told |= {"refused_why": None, "inflight": None}
        return told

"""Explain by REST: which target a request would get, and why."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.serializers.explain import ExplanationSerializer, QuestionSerializer
from controlplane.api.views.routes import edit_of
from controlplane.api.views.tenants import TenantView, named
from controlplane.bridge.questions import ask
from controlplane.errors import ControlPlaneError
from controlplane.models import Organisation
from controlplane.selectors.routes import list_routes
from controlplane.services.drafts import drafted_route


class ExplainView(TenantView):
    """What a gateway would do with one request, on the live configuration or on a draft."""

    serializer_class = QuestionSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(request=QuestionSerializer, responses={200: ExplanationSerializer})
    def create(self, request: Request) -> Response:
        """Explain one request. Nothing is sent, and nothing of it is stored."""
        serializer = QuestionSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked = serializer.validated_data
        organisation = self.organisation()
        drafted = None
        if "draft" in asked:
            drafted = self._drafted(organisation, **asked["draft"])
        document = ask(self.access, organisation, asked, now=timezone.now(), drafted=drafted)
        return Response(ExplanationSerializer(document).data)

    def _drafted(
        self, organisation: Organisation, *, route: str, changes: Mapping[str, Any]
    ) -> Mapping[str, object]:
        rows = list_routes(self.access).filter(organisation=organisation)
        row = named(rows, "draft.route", route.replace("\0", ""))
        edit = edit_of(self.actor, row, changes, at="draft.changes")
        try:
            return drafted_route(edit, row.pk).record
        except ControlPlaneError as error:
            error.fields = {f"draft.changes.{name}": why for name, why in error.fields.items()}
            raise

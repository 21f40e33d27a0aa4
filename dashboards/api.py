"""What the Overview lists beside its charts, by REST; the charts are `/api/v1/live/`."""

from collections.abc import Mapping
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.serializers.live import LiveQuerySerializer
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import TenantView
from controlplane.selectors.live import WINDOWS
from dashboards.attention import Need, gap_needs_of, needs_of
from dashboards.kinds import NeedKind, Page
from dashboards.scenes import read_whole
from dashboards.scopes import DEFAULT_WINDOW, LiveScope

SEVERITIES: Mapping[str, str] = {"crit": "critical", "warn": "warning", "idle": "notice"}


class AttentionQuerySerializer(LiveQuerySerializer):
    """The Overview's window; only gaps in the data depend on it."""

    window = serializers.ChoiceField(choices=list(WINDOWS), default=DEFAULT_WINDOW)
    pool = None  # type: ignore[assignment]
    route = None  # type: ignore[assignment]


class NeedSerializer(serializers.Serializer[object]):
    kind = serializers.ChoiceField(choices=[one.value for one in NeedKind])
    severity = serializers.ChoiceField(choices=list(SEVERITIES.values()))
    title = serializers.CharField(help_text="What it is, for people.")
    detail = serializers.CharField(help_text="Why, in a sentence; it may be empty.")
    pool_id = serializers.CharField(allow_null=True, help_text="The pool it is about, if it is.")
    alert_id = serializers.CharField(allow_null=True, help_text="The alert it is, if it is one.")
    budget_id = serializers.CharField(allow_null=True, help_text="The budget it is about.")


class AttentionSerializer(serializers.Serializer[object]):
    organisation_id = serializers.CharField()
    as_of = serializers.DateTimeField(help_text="When this was judged.")
    needs = NeedSerializer(many=True, help_text="The gravest first; empty when nothing is wrong.")


class AttentionView(TenantView):
    """What needs a person now in an organisation, as its Overview shows it."""

    serializer_class = AttentionSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(
        parameters=[ORGANISATION, AttentionQuerySerializer], responses={200: AttentionSerializer}
    )
    def list(self, request: Request) -> Response:
        """Read what needs attention; for roles of the whole organisation."""
        asked = AttentionQuerySerializer(data=request.query_params)
        refuse_unknown(request, {ORGANISATION.name, *asked.fields})
        asked.is_valid(raise_exception=True)
        values, now = asked.validated_data, timezone.now()
        organisation = organisation_asked(self)
        scope = LiveScope(organisation.pk, Page.OVERVIEW, "", values["window"])
        scene = read_whole(self.access, scope, now, values.get("until"))
        needs = [_told(one) for one in (*needs_of(scene), *gap_needs_of(scene))]
        document = {"organisation_id": organisation.pk, "as_of": now, "needs": needs}
        return Response(AttentionSerializer(document).data)


def _told(need: Need) -> dict[str, Any]:
    return {
        "kind": need.kind.value,
        "severity": SEVERITIES[need.tone],
        "title": need.title,
        "detail": need.detail,
        "pool_id": need.pool_id or None,
        "alert_id": need.alert_id or None,
        "budget_id": need.budget_id or None,
    }

"""The ledger by REST: an organisation's requests, newest first, and one with its charges."""

from dataclasses import replace
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request as ApiRequest
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from controlplane.api.pagination import NewestFirst
from controlplane.api.serializers.cache_usage import FalseHitSerializer, WrongAnswerSerializer
from controlplane.api.serializers.requests import RequestDetailSerializer, RequestSerializer
from controlplane.api.views.tenants import TenantView, named
from controlplane.errors import Invalid
from controlplane.models import Organisation, Request
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.request_filters import RequestFilters
from controlplane.selectors.requests import (
    get_request,
    list_charges,
    list_requests,
    page_of_requests,
)
from controlplane.services.cache_feedback import tell_wrong_answer

ORGANISATION = OpenApiParameter(
    "organisation",
    OpenApiTypes.STR,
    OpenApiParameter.QUERY,
    description="Name or id; needed only if you have several.",
)

_TIMES = [
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="Ended at or after this time."),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="Ended before this time."),
]


def organisation_asked(view: TenantView) -> Organisation:
    """The organisation a question is about: the one named, or the only one there is."""
    known = list_organisations(view.access)
    asked = view.request.query_params.get("organisation")
    if asked is not None:
        return named(known, "organisation", asked.replace("\0", ""))
    few = list(known[:2])
    if len(few) != 1:
        raise Invalid.field("organisation", "You have several; say which, by name or id.")
    return few[0]


class ByTime(NewestFirst):
    """Newest first by the time of the end. `previous` is always null: new rows come on top."""

    def paginate_queryset(
        self, queryset: QuerySet[Any], request: ApiRequest, view: APIView | None = None
    ) -> list[Any]:
        size = self.get_page_size(request) or NewestFirst.page_size
        cursor = request.query_params.get(self.cursor_query_param)
        page = page_of_requests(queryset, cursor, size)
        self._address, self._older = request.build_absolute_uri(), page.older
        return list(page.rows)

    def get_next_link(self) -> str | None:
        if self._older is None:
            return None
        return replace_query_param(self._address, self.cursor_query_param, self._older)

    def get_previous_link(self) -> str | None:
        return None


class RequestView(ListModelMixin, TenantView):
    """Requests of one organisation."""

    queryset = Request.objects.none()
    serializer_class = RequestSerializer
    pagination_class = ByTime
    filterset_class = RequestFilters
    query_parameters = frozenset((ORGANISATION.name,))
    lookup_field = "event_id"
    lookup_value_regex = r"[A-Za-z0-9_.:-]{1,100}"

    def get_queryset(self) -> QuerySet[Request]:
        return list_requests(self.access, organisation_asked(self).pk)

    @extend_schema(parameters=[ORGANISATION, *_TIMES])
    def list(self, request: ApiRequest, *args: Any, **kwargs: Any) -> Response:
        """List requests; the filters are those of the console's page."""
        return super().list(request, *args, **kwargs)

    @extend_schema(parameters=[ORGANISATION], responses=RequestDetailSerializer, filters=False)
    def retrieve(self, request: ApiRequest, event_id: str) -> Response:
        """Read one request with its charges and its decision record."""
        found = get_request(self.access, organisation_asked(self).pk, event_id)
        found.charges = list(list_charges(self.access, found))  # type: ignore[attr-defined]
        return Response(RequestDetailSerializer(found).data)

    @extend_schema(
        parameters=[ORGANISATION],
        request=WrongAnswerSerializer,
        responses={201: FalseHitSerializer},
    )
    @action(detail=True, methods=["post"], url_path="wrong-answer")
    def wrong_answer(self, request: ApiRequest, event_id: str) -> Response:
        """Say that an answer from a cache was wrong: its entry goes, and a false hit is noted."""
        organisation = organisation_asked(self)
        self.require_write("purges", organisation.pk)
        asked = WrongAnswerSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = get_request(self.access, organisation.pk, event_id)
        reason = asked.validated_data.get("reason") or self.actor.reason
        found = tell_wrong_answer(replace(self.actor, reason=reason), request=row)
        return Response(FalseHitSerializer(found).data, status=201)

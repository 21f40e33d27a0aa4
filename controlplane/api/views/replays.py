"""Replays by REST: what a draft of a route would have done to the last hours."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.replays import ReplayListSerializer, ReplaySerializer
from controlplane.api.views.routes import edit_of
from controlplane.api.views.tenants import NounView, named
from controlplane.errors import Conflict, Invalid
from controlplane.models import Replay
from controlplane.selectors.replays import list_replays
from controlplane.selectors.routes import list_routes
from controlplane.services.replays import request_replay


class ReplayView(NounView):
    """Drafts replayed on past requests: split, waits, first tokens and cost, foretold."""

    noun = "routes"
    selector = staticmethod(list_replays)
    queryset = Replay.objects.none()
    serializer_class = ReplaySerializer
    orderings = BY_ID
    is_for_whole = True

    def get_queryset(self) -> QuerySet[Replay]:
        return list_replays(self.access)

    @extend_schema(responses=ReplayListSerializer(many=True))
    def list(self, request: Request) -> Response:
        """List those of your organisations, newest first, without their figures."""
        rows = self.filter_queryset(self.get_queryset().defer("report", "observed"))
        page = self.paginate_queryset(rows) or ()
        return self.get_paginated_response(ReplayListSerializer(page, many=True).data)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Read one; `report` is null until it is done, `observed` until the draft is published."""
        return Response(self.get_serializer(self.get_object()).data)

    @extend_schema(responses={201: ReplaySerializer})
    def create(self, request: Request) -> Response:
        """Ask what a change of a route would have done; a job answers within seconds."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        values: dict[str, Any] = self.validated()
        routes = list_routes(self.access).filter(organisation=organisation)
        route = named(routes, "route", values["route"].replace("\0", ""))
        edit = edit_of(self.actor, route, values["changes"], at="changes")
        try:
            replay = request_replay(
                self.actor,
                route=route,
                changes=values["changes"],
                edit=edit,
                hours=values["hours"],
                most_requests=values["most_requests"],
            )
        except (Invalid, Conflict) as error:
            error.fields = {f"changes.{name}": why for name, why in error.fields.items()}
            raise
        return Response(self.get_serializer(replay).data, status=status.HTTP_201_CREATED)

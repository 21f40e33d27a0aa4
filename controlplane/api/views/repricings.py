"""Repricings and corrections by REST: what was booked, put right beside the ledger."""

from dataclasses import replace
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import BY_ID
from controlplane.api.serializers.repricings import (
    CorrectionSerializer,
    RepricingAskedSerializer,
    RepricingSerializer,
)
from controlplane.api.views.tenants import NounView, named
from controlplane.models import Organisation, Repricing, SpendCorrection
from controlplane.selectors.correction_filters import CorrectionFilters, RepricingFilters
from controlplane.selectors.repricings import list_corrections, list_repricings
from controlplane.services.corrections import create_correction
from controlplane.services.repricings import (
    book_repricing,
    discard_repricing,
    request_repricing,
)


class RepricingView(NounView):
    """Requests priced anew: summed before and after, and booked once somebody says so."""

    noun = "repricings"
    selector = staticmethod(list_repricings)
    queryset = Repricing.objects.none()
    serializer_class = RepricingSerializer
    filterset_class = RepricingFilters
    orderings = BY_ID
    is_for_whole = True

    @extend_schema(request=RepricingAskedSerializer, responses={201: RepricingSerializer})
    def create(self, request: Request) -> Response:
        """Have requests priced at the book as it is now; a job sums them, nothing is booked."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        asked = RepricingAskedSerializer(data=self.body)
        asked.is_valid(raise_exception=True)
        values = asked.validated_data
        job = request_repricing(
            replace(self.actor, reason=values["reason"]),
            organisation=organisation,
            since=values["since"],
            until=values["until"],
            scope=_scope_of(organisation, values),
        )
        return self.shown(job, code=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses={200: RepricingSerializer})
    @action(detail=True, methods=["post"])
    def book(self, request: Request, pk: str) -> Response:
        """Have the corrections written that were summed; 409 unless it is ready."""
        row = self._own()
        return self.shown(
            book_repricing(
                self.actor, repricing_id=row.pk, expected_version=self.expected_version()
            )
        )

    @extend_schema(request=None, responses={200: RepricingSerializer})
    @action(detail=True, methods=["post"])
    def discard(self, request: Request, pk: str) -> Response:
        """Book nothing of it; 409 once booking has begun."""
        row = self._own()
        return self.shown(
            discard_repricing(
                self.actor, repricing_id=row.pk, expected_version=self.expected_version()
            )
        )

    def _own(self) -> Repricing:
        row: Repricing = self.get_object()
        self.require_write(self.noun, row.organisation_id)
        return row


class CorrectionView(NounView):
    """Changes of what was booked, by repricings or by hand; each is there for good."""

    noun = "corrections"
    selector = staticmethod(list_corrections)
    queryset = SpendCorrection.objects.none()
    serializer_class = CorrectionSerializer
    filterset_class = CorrectionFilters
    orderings = BY_ID
    is_for_whole = True

    def create(self, request: Request) -> Response:
        """Add to what a subject has spent or, with a negative amount, take from it."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        values: dict[str, Any] = self.validated()
        model = values.pop("model", None)
        if model is not None:
            values["model"] = named(organisation.models.all(), "model", model)
        actor = replace(self.actor, reason=values.pop("reason"))
        row = create_correction(actor, organisation=organisation, **values)
        return Response(self.told(row), status=status.HTTP_201_CREATED)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Read one."""
        return Response(self.told(self.get_object()))


def _scope_of(organisation: Organisation, values: dict[str, Any]) -> dict[str, str]:
    rows = {
        "team": organisation.teams.all(),
        "project": organisation.projects.all(),
        "model": organisation.models.all(),
        "pool": organisation.pools.all(),
    }
    return {
        f"{name}_id": named(found, name, values[name]).pk
        for name, found in rows.items()
        if values.get(name) is not None
    }

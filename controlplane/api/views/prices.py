"""The price book by REST; finance's own."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import F
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import orderings_by
from controlplane.api.serializers.price_lists import (
    BookLineSerializer,
    PlannedListSerializer,
    PriceListSerializer,
    UnpricedSerializer,
)
from controlplane.api.serializers.prices import DropSerializer, PriceSerializer, VersionSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.models import Organisation
from controlplane.selectors.filters import PriceFilters
from controlplane.selectors.price_lists import list_book, list_unpriced
from controlplane.selectors.prices import list_prices
from controlplane.services.price_lists import import_price_list, preview_price_list
from controlplane.services.prices import create_price, delete_price, drop_version, update_price


class PriceView(Bulk, Creating, Changing, Removing):
    noun = "prices"
    selector = staticmethod(list_prices)
    serializer_class = PriceSerializer
    filterset_class = PriceFilters
    orderings = orderings_by("model")
    order_columns: ClassVar[Mapping[str, Any]] = {"model": F("model__name")}

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        model = named(organisation.models.all(), "model", values.pop("model"))
        pool = values.pop("pool", None)
        if pool is not None:
            values["pool"] = named(organisation.pools.all(), "pool", pool)
        return create_price(self.actor, model=model, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_price(
            self.actor, price_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_price(self.actor, price_id=row.pk, expected_version=expected_version)

    @extend_schema(
        parameters=[ORGANISATION], responses={200: UnpricedSerializer(many=True)}, filters=False
    )
    @action(detail=False, methods=["get"], filter_backends=(), pagination_class=None)
    def unpriced(self, request: Request) -> Response:
        """List models of which requests of the last week have no cost, most of them first."""
        refuse_unknown(request, (ORGANISATION.name,))
        found = list_unpriced(self.access, organisation_asked(self), timezone.now())
        return Response(UnpricedSerializer(found, many=True).data)

    @extend_schema(
        parameters=[ORGANISATION],
        responses={200: BookLineSerializer(many=True)},
        filters=False,
    )
    @action(detail=False, methods=["get"], filter_backends=(), pagination_class=None)
    def export(self, request: Request) -> Response:
        """List what is in force and planned as files tell it, in US dollars; import takes it."""
        refuse_unknown(request, (ORGANISATION.name,))
        rows = list_book(self.access, organisation_asked(self))
        return Response(BookLineSerializer(rows, many=True).data)

    @extend_schema(
        request=PriceListSerializer, responses={200: PlannedListSerializer}, filters=False
    )
    @action(detail=False, methods=["post"], filter_backends=(), pagination_class=None)
    def preview(self, request: Request) -> Response:
        """Read a price list from a file's text and tell what it would change, line by line."""
        organisation, values = self._list_asked()
        found = preview_price_list(
            organisation, values["content"], is_confirmed=values.get("is_confirmed", False)
        )
        return Response(PlannedListSerializer(found).data)

    @extend_schema(
        operation_id="prices_import",
        request=PriceListSerializer,
        responses={200: PlannedListSerializer},
        filters=False,
    )
    @action(
        detail=False,
        methods=["post"],
        url_path="import",
        url_name="import",
        filter_backends=(),
        pagination_class=None,
    )
    def import_list(self, request: Request) -> Response:
        """Add the versions of all lines that aren't rejected, together; all or none of them."""
        organisation, values = self._list_asked()
        found = import_price_list(
            self.actor,
            organisation=organisation,
            content=values["content"],
            digest=values.get("digest"),
            is_confirmed=values.get("is_confirmed", False),
        )
        return Response(PlannedListSerializer(found).data)

    def _list_asked(self) -> tuple[Organisation, dict[str, Any]]:
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        serializer = PriceListSerializer(data=self.body)
        serializer.is_valid(raise_exception=True)
        return organisation, serializer.validated_data

    @extend_schema(responses={200: VersionSerializer(many=True)}, filters=False)
    @action(detail=True, methods=["get"], filter_backends=(), pagination_class=None)
    def versions(self, request: Request, pk: str) -> Response:
        """List all versions, the newest beginning first."""
        return Response(VersionSerializer(self.get_object().versions.all(), many=True).data)

    @extend_schema(request=DropSerializer, responses={200: PriceSerializer}, filters=False)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def drop(self, request: Request, pk: str) -> Response:
        """Take back a version that hasn't begun; one that has may be used, and stays."""
        price = self.get_object()
        self.require_write(self.noun, price.organisation_id)
        serializer = DropSerializer(data=self.body)
        serializer.is_valid(raise_exception=True)
        drop_version(
            self.actor,
            price_id=price.pk,
            version_id=serializer.validated_data["version_id"],
            expected_version=self.expected_version(),
        )
        return self.shown(self.fresh(price))

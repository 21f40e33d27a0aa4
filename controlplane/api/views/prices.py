"""The price book by REST; finance's own."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import F
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import orderings_by
from controlplane.api.serializers.prices import PriceSerializer, VersionSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.identifiers import ULID_PATTERN
from controlplane.models import Organisation
from controlplane.selectors.filters import PriceFilters
from controlplane.selectors.prices import list_prices
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

    @extend_schema(responses={200: VersionSerializer(many=True)}, filters=False)
    @action(detail=True, methods=["get"], filter_backends=(), pagination_class=None)
    def versions(self, request: Request, pk: str) -> Response:
        """List all versions, the newest beginning first."""
        return Response(VersionSerializer(self.get_object().versions.all(), many=True).data)

    @extend_schema(
        operation_id="prices_versions_drop",
        request=None,
        responses={200: PriceSerializer},
        parameters=[OpenApiParameter("version", str, OpenApiParameter.PATH)],
        filters=False,
    )
    @action(
        detail=True,
        methods=["post"],
        url_path=rf"versions/(?P<version>prv_{ULID_PATTERN})/drop",
        url_name="drop-version",
        filter_backends=(),
        pagination_class=None,
    )
    def drop_version(self, request: Request, pk: str, version: str) -> Response:
        """Take back a version that hasn't begun; one that has may be used, and stays."""
        price = self.get_object()
        self.require_write(self.noun, price.organisation_id)
        drop_version(
            self.actor,
            price_id=price.pk,
            version_id=version,
            expected_version=self.expected_version(),
        )
        return self.shown(self.fresh(price))

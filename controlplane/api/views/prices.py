"""Prices by REST; finance's own."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import F

from controlplane.api.pagination import orderings_by
from controlplane.api.serializers.prices import PriceSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.models import Organisation
from controlplane.selectors.filters import PriceFilters
from controlplane.selectors.prices import list_prices
from controlplane.services.prices import create_price, delete_price, update_price


class PriceView(Bulk, Creating, Changing, Removing):
    noun = "prices"
    selector = staticmethod(list_prices)
    serializer_class = PriceSerializer
    filterset_class = PriceFilters
    orderings = orderings_by("model")
    order_columns: ClassVar[Mapping[str, Any]] = {"model": F("model__name")}

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        model = named(organisation.models.all(), "model", values.pop("model"))
        return create_price(self.actor, model=model, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_price(
            self.actor, price_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_price(self.actor, price_id=row.pk, expected_version=expected_version)

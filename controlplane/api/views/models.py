"""The catalogue of models by REST."""

from typing import Any

from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.models import ModelSerializer
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.tenants import Changing, Creating, Removing
from controlplane.models import Organisation
from controlplane.selectors.filters import ModelFilters
from controlplane.selectors.models import list_models
from controlplane.services.models import create_model, delete_model, update_model


class ModelView(Bulk, Creating, Changing, Removing):
    noun = "models"
    selector = staticmethod(list_models)
    serializer_class = ModelSerializer
    filterset_class = ModelFilters
    orderings = BY_NAME

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_model(self.actor, organisation=organisation, **values)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_model(
            self.actor, model_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_model(self.actor, model_id=row.pk, expected_version=expected_version)

"""The form of a price."""

from typing import Any

from django.forms import ModelChoiceField

from controlplane.console.forms.base import NounForm
from controlplane.console.forms.money import DollarsField
from controlplane.models import CatalogueModel
from controlplane.selectors.models import list_models

_AMOUNTS = (
    "input_nanousd_per_mtok",
    "output_nanousd_per_mtok",
    "cached_input_nanousd_per_mtok",
)


class PriceForm(NounForm):
    """What a model's tokens cost from now on; what was booked stays as it is."""

    fixed = frozenset({"model"})
    risky = frozenset(_AMOUNTS)

    model = ModelChoiceField(
        CatalogueModel.objects.none(),
        label="Model",
        empty_label="Choose a model without a price",
        help_text="One price a model.",
    )
    input_nanousd_per_mtok = DollarsField(label="Input, USD per 1M tokens", help_text="0 is free.")
    output_nanousd_per_mtok = DollarsField(label="Output, USD per 1M tokens")
    cached_input_nanousd_per_mtok = DollarsField(
        label="Cached input, USD per 1M tokens",
        required=False,
        help_text="For prompt tokens the engine had in its cache. Empty: as input.",
    )

    def prepare(self) -> None:
        field = self.fields.get("model")
        if isinstance(field, ModelChoiceField):
            mine = list_models(self.scope.access).filter(organisation_id=self.scope.organisation.pk)
            field.queryset = mine.filter(price__isnull=True).order_by("name")

    def shown(self, name: str, value: Any) -> str:
        if name in _AMOUNTS and value is not None:
            return super().shown(name, int(value))
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        return "as input" if name == "cached_input_nanousd_per_mtok" else super().unset(name)

"""The form of a price."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.forms import BooleanField, DateTimeField, ModelChoiceField

from controlplane.console.formats import minute
from controlplane.console.forms.base import NounForm, Values
from controlplane.console.forms.money import DollarsField
from controlplane.decisions.prices import AMOUNTS
from controlplane.models import CatalogueModel, Pool
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools

UNSET = {
    "cached_input_nanousd_per_mtok": "as input",
    "reasoning_output_nanousd_per_mtok": "as output",
    "embedding_input_nanousd_per_mtok": "as input",
    "request_nanousd": "nothing",
    "input_nanousd_per_mtok": "unpriced",
    "output_nanousd_per_mtok": "unpriced",
    "effective_from": "now",
    "pool": "any pool",
}
"""What it means that an amount isn't given."""


class PriceForm(NounForm):
    """What a model's tokens cost from a moment on; what was booked stays as it is."""

    fixed = frozenset({"model", "pool"})
    risky = frozenset(AMOUNTS)
    groups: ClassVar[Sequence[tuple[str, Sequence[str]]]] = (
        (
            "What else costs its own",
            (
                "cached_input_nanousd_per_mtok",
                "reasoning_output_nanousd_per_mtok",
                "embedding_input_nanousd_per_mtok",
                "request_nanousd",
            ),
        ),
        (
            "What customers are asked",
            ("customer_input_nanousd_per_mtok", "customer_output_nanousd_per_mtok"),
        ),
        ("When", ("effective_from", "is_confirmed")),
    )

    model = ModelChoiceField(
        CatalogueModel.objects.none(), label="Model", empty_label="Choose a model"
    )
    pool = ModelChoiceField(
        Pool.objects.none(),
        label="In pool",
        required=False,
        empty_label="any",
        help_text="A pool's own price goes before its model's.",
    )
    input_nanousd_per_mtok = DollarsField(
        label="Input, USD per 1M tokens", required=False, help_text="0 is free."
    )
    output_nanousd_per_mtok = DollarsField(
        label="Output, USD per 1M tokens",
        required=False,
        help_text="Empty both to end the price: what comes then costs an unknown amount.",
    )
    cached_input_nanousd_per_mtok = DollarsField(
        label="Cached input, USD per 1M tokens",
        required=False,
        help_text="For prompt tokens the engine had in its cache. Empty: as input.",
    )
    reasoning_output_nanousd_per_mtok = DollarsField(
        label="Reasoning output, USD per 1M tokens",
        required=False,
        help_text="For the part of the output that is reasoning. Empty: as output.",
    )
    embedding_input_nanousd_per_mtok = DollarsField(
        label="Embeddings input, USD per 1M tokens", required=False, help_text="Empty: as input."
    )
    request_nanousd = DollarsField(
        label="Request, USD", required=False, help_text="For each attempt that was answered."
    )
    customer_input_nanousd_per_mtok = DollarsField(
        label="Customer input, USD per 1M tokens",
        required=False,
        help_text="For revenue and margin. Empty: not known.",
    )
    customer_output_nanousd_per_mtok = DollarsField(
        label="Customer output, USD per 1M tokens", required=False
    )
    effective_from = DateTimeField(
        label="In force from",
        required=False,
        help_text="Empty: from now on. Gateways take it by their clocks, without another edit. "
        "A moment in the past changes nothing that is booked.",
    )
    is_confirmed = BooleanField(label="A price above a dollar a token is meant", required=False)

    @classmethod
    def initial_of(cls, row: Any) -> dict[str, Any]:
        return {**super().initial_of(row), "effective_from": None, "is_confirmed": False}

    def prepare(self) -> None:
        self.fields["effective_from"].label = f"In force from, {self.scope.zone.key}"
        own = self.scope.organisation.pk
        for name, rows in (("model", list_models), ("pool", list_pools)):
            field = self.fields.get(name)
            if isinstance(field, ModelChoiceField):
                found: Any = rows(self.scope.access)
                field.queryset = found.filter(organisation_id=own).order_by("name")

    def values(self) -> dict[str, Any]:
        found = super().values()
        return {name: one for name, one in found.items() if name != "is_confirmed" or one}

    def plain(self, name: str, value: Any) -> Any:
        if name == "effective_from" and value is not None and not isinstance(value, str):
            return value.isoformat()
        return super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        if name in AMOUNTS and value is not None:
            return super().shown(name, int(value))
        if name == "effective_from" and value is not None:
            return minute(datetime.fromisoformat(value), self.scope.zone)
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        return UNSET.get(name, super().unset(name))

    def is_risky(self, changes: Values) -> bool:
        return not self.risky.isdisjoint(changes)

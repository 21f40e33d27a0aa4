"""Edits of prices. An edit changes what requests cost from now on, never what they did cost."""

from collections.abc import Mapping
from typing import Any

from controlplane.errors import Invalid
from controlplane.models import CatalogueModel, Price
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit

_EDITABLE = frozenset(
    ("input_nanousd_per_mtok", "output_nanousd_per_mtok", "cached_input_nanousd_per_mtok")
)


def create_price(
    actor: Actor,
    *,
    model: CatalogueModel,
    input_nanousd_per_mtok: int,
    output_nanousd_per_mtok: int,
    cached_input_nanousd_per_mtok: int | None = None,
) -> Price:
    """Give a model its price in nano-USD for a million tokens; 0 is free. Raises Invalid."""
    with configuration_edit():
        if Price.objects.filter(model=model).exists():
            raise Invalid.field("model", "The model has a price already.")
        price = rows.insert(
            Price(
                organisation_id=model.organisation_id,
                model=model,
                input_nanousd_per_mtok=input_nanousd_per_mtok,
                output_nanousd_per_mtok=output_nanousd_per_mtok,
                cached_input_nanousd_per_mtok=cached_input_nanousd_per_mtok,
            )
        )
        edits.conclude(actor, "create", "prices", price, after=edits.values_of(price))
    return price


def update_price(
    actor: Actor,
    *,
    price_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Price:
    """Change the amounts that are named; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        price = rows.lock(Price, price_id, expected_version=expected_version)
        changed = rows.change(price, changes)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", "prices", price, before=before, after=after)
    return price


def delete_price(actor: Actor, *, price_id: str, expected_version: int | None = None) -> None:
    """Make the model's price unknown again, which is not the same as free."""
    with configuration_edit():
        price = rows.lock(Price, price_id, expected_version=expected_version)
        before = edits.values_of(price)
        rows.remove(price)
        edits.conclude(actor, "delete", "prices", price, before=before)

"""Edits of the catalogue."""

from collections.abc import Mapping
from typing import Any

from controlplane.errors import InUse, Invalid
from controlplane.models import CatalogueModel, Organisation
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names
from inference.contract.kinds import Task

_EDITABLE = frozenset(("name", "task", "max_context_tokens"))


def create_model(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    task: str = Task.GENERATE.value,
    max_context_tokens: int | None = None,
) -> CatalogueModel:
    """List a model; raises Invalid."""
    with configuration_edit():
        model = rows.insert(
            CatalogueModel(
                organisation=organisation,
                name=name,
                task=task,
                max_context_tokens=max_context_tokens,
            )
        )
        edits.conclude(actor, "create", "models", model, after=edits.values_of(model))
    return model


def update_model(
    actor: Actor,
    *,
    model_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> CatalogueModel:
    """Change name, task or max_context_tokens; raises Invalid, NotFound or VersionMismatch."""
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        model = rows.lock(CatalogueModel, model_id, expected_version=expected_version)
        changed = rows.change(model, changes)
        if changed is not None:
            before, after = changed
            edits.conclude(actor, "update", "models", model, before=before, after=after)
    return model


def delete_model(actor: Actor, *, model_id: str, expected_version: int | None = None) -> None:
    """Remove a model with its price, limits and switch; raises InUse naming its pools."""
    with configuration_edit():
        model = rows.lock(CatalogueModel, model_id, expected_version=expected_version)
        pools = list(model.pools.order_by("name").values_list("name", flat=True))
        if pools:
            raise InUse.by(f"Model {model.name}", "pools", pools)
        before = edits.values_of(model)
        for price in model.prices.filter(removed_at__isnull=True):
            edits.note(actor, "delete", "prices", price, before=edits.values_of(price))
        remove_what_names(actor, model.organisation_id, "model", [model.pk])
        rows.remove(model)
        edits.conclude(actor, "delete", "models", model, before=before)


def find_or_create_model(
    actor: Actor, *, organisation: Organisation, name_or_id: str
) -> CatalogueModel:
    """The organisation's model of this name or id, listed now if the name is new.

    Belongs inside another edit, which stages it; raises Invalid at `model`.
    """
    found = organisation.models.filter(pk=name_or_id).first()
    found = found or organisation.models.filter(name=name_or_id).first()
    if found is not None:
        return found
    try:
        model = rows.insert(CatalogueModel(organisation=organisation, name=name_or_id))
    except Invalid as error:
        messages = [text for texts in error.fields.values() for text in texts]
        raise Invalid(error.detail, fields={"model": messages}) from error
    edits.note(actor, "create", "models", model, after=edits.values_of(model))
    return model

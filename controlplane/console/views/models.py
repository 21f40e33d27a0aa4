"""The pages of the catalogue."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact
from controlplane.console.editing import EditPage
from controlplane.console.formats import NO_PRICE, count, dollars
from controlplane.console.forms.models import ModelForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import MODELS, PRICES
from controlplane.console.reviews import Impact, Reach, checks_of
from controlplane.console.tables.models import ModelTable
from controlplane.models import CatalogueModel
from controlplane.selectors.filters import ModelFilters
from controlplane.selectors.models import list_models, list_models_served
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.models import create_model, delete_model, update_model


class ModelList(ListPage):
    noun = MODELS
    selector = staticmethod(list_models_served)
    filters = ModelFilters
    table = ModelTable
    intro = "What pools serve and prices are for; callers ask for routes"
    empty = Empty(
        "The catalogue is empty",
        "A model is a name with a context length and a price. Pools serve one model each, and "
        "usage is booked by model.",
    )


class ModelDetail(DetailPage):
    noun = MODELS
    selector = staticmethod(list_models_served)
    template_name = "console/models/detail.html"

    def facts_of(self, row: CatalogueModel) -> Sequence[Fact]:
        context = row.max_context_tokens
        return (
            Fact("Task", row.get_task_display()),
            Fact("Context", "not known" if context is None else f"{count(context)} tokens"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: CatalogueModel, tab: str) -> Mapping[str, Any]:
        price = row.price
        new_price = f"{PRICES.create_url()}?model={row.pk}"
        return {
            "price": price,
            "price_url": PRICES.detail_url(price.pk) if price else "",
            "new_price_url": new_price if self.may_write("prices") else "",
            "pools": row.pools.all(),
            "usage_url": f"{reverse('requests')}?model={row.name}",
        }


class ModelCreate(CreatePage):
    noun = MODELS
    form_class = ModelForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> CatalogueModel:
        return create_model(actor, organisation=self.scope.organisation, **values)


class ModelEdit(EditPage):
    noun = MODELS
    selector = staticmethod(list_models)
    form_class = ModelForm

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_model(
            actor, model_id=row.pk, changes=changes, expected_version=expected_version
        )

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return Impact(reach=_reach_of(row), checks=checks_of(draft, MODELS.key))


class ModelDelete(DeletePage):
    noun = MODELS
    selector = staticmethod(list_models_served)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_model(actor, model_id=row.pk, expected_version=expected_version)

    def values_of(self, row: CatalogueModel) -> Mapping[str, Any]:
        price = row.price
        told = NO_PRICE
        if price is not None and price.is_priced:
            told = f"{dollars(price.input_nanousd_per_mtok)} in, "
            told += f"{dollars(price.output_nanousd_per_mtok)} out, per 1M tokens"
        return {"name": row.name, "task": row.get_task_display(), "price": told}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return Impact(reach=_reach_of(row), checks=checks_of(draft, MODELS.key))


def _reach_of(row: CatalogueModel) -> Sequence[Reach]:
    names = [pool.name for pool in row.pools.all()]
    return (Reach("Pools", ", ".join(names) or "none serves it"),)

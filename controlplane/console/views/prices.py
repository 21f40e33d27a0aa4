"""The pages of prices: one effective price a model."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact
from controlplane.console.editing import EditPage
from controlplane.console.formats import count, dollars
from controlplane.console.forms.prices import PriceForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import MODELS, PRICES
from controlplane.console.reviews import Check, Figure, Impact, Reach, checks_of
from controlplane.console.tables.prices import PriceTable
from controlplane.models import Organisation, Price
from controlplane.selectors.access import Access
from controlplane.selectors.filters import PriceFilters
from controlplane.selectors.impact import Traffic, get_traffic
from controlplane.selectors.prices import list_prices
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.prices import create_price, delete_price, update_price

DAY = timedelta(days=1)
_PER = 1_000_000


class PriceList(ListPage):
    noun = PRICES
    selector = staticmethod(list_prices)
    filters = PriceFilters
    table = PriceTable
    order = "model"
    intro = "USD per 1M tokens; one effective price a model"
    api_orders: ClassVar[Mapping[str, str]] = {"model": "model"}
    empty = Empty(
        "No model has a price",
        "Requests of a model without a price cost an unknown amount, which is not 0. A price "
        "counts from the moment it is saved.",
    )


class PriceDetail(DetailPage):
    noun = PRICES
    selector = staticmethod(list_prices)

    def title_of(self, row: Price) -> str:
        return row.model.name

    def facts_of(self, row: Price) -> Sequence[Fact]:
        cached = row.cached_input_nanousd_per_mtok
        unit = "per 1M tokens"
        return (
            Fact("Model", row.model.name, MODELS.detail_url(row.model_id)),
            Fact("Input", dollars(row.input_nanousd_per_mtok), unit=unit),
            Fact("Cached input", "as input" if cached is None else dollars(cached), unit=unit),
            Fact("Output", dollars(row.output_nanousd_per_mtok), unit=unit),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )


class PriceCreate(CreatePage):
    noun = PRICES
    form_class = PriceForm
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Price:
        return create_price(actor, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return _impact(self.scope.access, self.scope.organisation, changes["model"], changes, draft)


class PriceEdit(EditPage):
    noun = PRICES
    selector = staticmethod(list_prices)
    form_class = PriceForm

    def title_of(self, row: Price) -> str:
        return row.model.name

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_price(
            actor, price_id=row.pk, changes=changes, expected_version=expected_version
        )

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        access, organisation = self.scope.access, self.scope.organisation
        return _impact(access, organisation, row.model, changes, draft, row)


class PriceDelete(DeletePage):
    noun = PRICES
    selector = staticmethod(list_prices)

    def title_of(self, row: Price) -> str:
        return row.model.name

    def values_of(self, row: Price) -> Mapping[str, Any]:
        return {name: getattr(row, name) for name in PriceForm.risky}

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_price(actor, price_id=row.pk, expected_version=expected_version)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = Check("warn", "Requests of this model will cost an unknown amount, which is not 0.")
        return Impact(checks=(told, *checks_of(draft, PRICES.key)))


def _impact(
    access: Access,
    organisation: Organisation,
    model: Any,
    changes: Mapping[str, Any],
    draft: Draft,
    row: Price | None = None,
) -> Impact:
    """The last day's tokens at the old price and at the new one."""
    traffic = get_traffic(access, organisation, since=timezone.now() - DAY, model_id=model.pk)
    stays = Check("info", "What was booked stays as it is; the price counts from now on.")
    before = None if row is None else _cost(traffic, _amounts(row, {}))
    after = _cost(traffic, _amounts(row, changes))
    return Impact(
        figures_title="Impact, the last 24 h at both prices",
        figures=(
            Figure(
                f"Cost of {model.name}",
                "unknown" if before is None else dollars(before),
                dollars(after),
                "" if before is None else _moved(before, after),
            ),
        ),
        reach=(
            Reach("Requests", f"{count(traffic.requests)} in the last 24 h"),
            Reach("Projects", ", ".join(traffic.projects) or "none called it in the last 24 h"),
        ),
        checks=(stays, *checks_of(draft, PRICES.key)),
    )


def _amounts(row: Price | None, changes: Mapping[str, Any]) -> tuple[int, int, int]:
    """Input, cached input and output, as they are with the changes."""
    found = {name: changes.get(name, getattr(row, name, None)) for name in PriceForm.risky}
    into = int(found["input_nanousd_per_mtok"] or 0)
    cached = found["cached_input_nanousd_per_mtok"]
    out = int(found["output_nanousd_per_mtok"] or 0)
    return into, into if cached is None else int(cached), out


def _cost(traffic: Traffic, amounts: tuple[int, int, int]) -> int:
    into, cached, out = amounts
    plain = max(traffic.prompt_tokens - traffic.cached_tokens, 0)
    total = plain * into + traffic.cached_tokens * cached + traffic.completion_tokens * out
    # to the cent's hundredth: an estimate doesn't pretend to nano-dollars
    return round(total / _PER / 100_000) * 100_000


def _moved(before: int, after: int) -> str:
    if before == after:
        return "no change"
    arrow = "▲" if after > before else "▼"
    return f"{arrow} {100 * abs(after - before) / before:.0f} %" if before else f"{arrow} from $0"

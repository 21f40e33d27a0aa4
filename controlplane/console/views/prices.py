"""The pages of the price book: what is in force, its versions, and what a change would mean."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django.utils import timezone

from controlplane.console.acting import ActPage
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.diffs import Line
from controlplane.console.editing import EditPage
from controlplane.console.formats import UNKNOWN, clock, count, dollars
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.prices import PriceForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import MODELS, POOLS, PRICES
from controlplane.console.price_facts import (
    amount_words,
    cost_of_many,
    label_of,
    price_at,
    title_of,
    unit_of,
    version_lines,
)
from controlplane.console.reviews import Check, Figure, Impact, Reach, checks_of
from controlplane.console.tables.prices import PriceTable
from controlplane.decisions.prices import AMOUNTS
from controlplane.errors import Conflict
from controlplane.models import Organisation, Price, PriceVersion
from controlplane.selectors.access import Access
from controlplane.selectors.filters import PriceFilters
from controlplane.selectors.impact import Traffic, get_traffic
from controlplane.selectors.price_lists import list_unpriced
from controlplane.selectors.prices import list_prices
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.prices import create_price, delete_price, drop_version, update_price
from inference.contract.events import PriceUsed, Usage

DAY = timedelta(days=1)


class PriceList(ListPage):
    noun = PRICES
    selector = staticmethod(list_prices)
    filters = PriceFilters
    table = PriceTable
    order = "model"
    intro = "USD per 1M tokens; a pool's own price goes before its model's"
    api_orders: ClassVar[Mapping[str, str]] = {"model": "model"}
    template_name = "console/prices/list.html"
    empty = Empty(
        "No model has a price",
        "Requests of a model without a price cost an unknown amount, which is not 0. A price "
        "counts from the moment it is saved.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        organisation = self.scope.organisation
        return {"unpriced": list_unpriced(self.scope.access, organisation, timezone.now())}


class PriceDetail(DetailPage):
    template_name = "console/prices/detail.html"
    noun = PRICES
    selector = staticmethod(list_prices)

    def title_of(self, row: Price) -> str:
        return title_of(row)

    def state_of(self, row: Price) -> State | None:
        return None if row.is_priced else State("no price now", "warn", "warn")

    def facts_of(self, row: Price) -> Sequence[Fact]:
        pool = row.pool
        return (
            Fact("Model", row.model.name, MODELS.detail_url(row.model_id)),
            Fact("In pool", "any")
            if pool is None
            else Fact("In pool", pool.name, POOLS.detail_url(pool.pk)),
            *(
                Fact(label_of(name), amount_words(name, getattr(row, name)), unit=unit_of(name))
                for name in AMOUNTS
            ),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version in force", row.version_id or UNKNOWN, is_mono=True),
        )

    def extra(self, row: Price, tab: str) -> Mapping[str, Any]:
        return {
            "versions": version_lines(row, timezone.now()),
            "can_edit": self.may_write(PRICES.key),
        }


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
        return title_of(row)

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
        return title_of(row)

    def values_of(self, row: Price) -> Mapping[str, Any]:
        return {name: getattr(row, name) for name in AMOUNTS}

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_price(actor, price_id=row.pk, expected_version=expected_version)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        words = "Requests of this model will cost an unknown amount, which is not 0."
        if row.pool is not None:
            words = "Requests this pool serves will cost what its model does."
        told = Check("warn", words)
        return Impact(checks=(told, *checks_of(draft, PRICES.key)))


class PriceTakeBack(ActPage):
    """Take back a version that hasn't begun: the one the address names, else the next one."""

    noun = PRICES
    act = "take-back"
    selector = staticmethod(list_prices)
    form_class = NounForm
    verbs: ClassVar[Mapping[str, str]] = {"take-back": "Take back"}
    is_for_tokens = False
    titles: ClassVar[Mapping[str, str]] = {"take-back": "Take back the planned version of"}

    def title_of(self, row: Price) -> str:
        return title_of(row)

    def values_of(self, row: Price) -> Mapping[str, Any]:
        asked = self.request.GET.get("version")
        for one in row.upcoming:
            if asked in (None, one.pk):
                return {"version_id": one.pk}
        raise Conflict("There is no such version that hasn't begun.")

    def lines_of_act(self, row: Price, changes: Mapping[str, Any]) -> Sequence[Line]:
        found = [one for one in row.upcoming if one.pk == changes.get("version_id")]
        zone = self.scope.zone
        return [
            Line(f"From {clock(one.effective_from, zone, has_date=True)}", _words(one), None)
            for one in found
        ]

    def words_of(self, row: Price, changes: Mapping[str, Any], draft: Draft) -> str:
        return "What is in force before it stays in force. Nothing was charged at it yet."

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return drop_version(
            actor,
            price_id=row.pk,
            version_id=changes["version_id"],
            expected_version=expected_version,
        )


def _words(version: PriceVersion) -> str:
    """A version's amounts, as far as it says any."""
    told = [(label_of(name), name, one) for name, one in version.amounts.items() if one is not None]
    return ", ".join(f"{label} {amount_words(name, one)}" for label, name, one in told) or "ended"


def _impact(
    access: Access,
    organisation: Organisation,
    model: Any,
    changes: Mapping[str, Any],
    draft: Draft,
    row: Price | None = None,
) -> Impact:
    """The last day's tokens at the old price and at the new one."""
    pool = changes.get("pool") if row is None else row.pool
    traffic = get_traffic(
        access,
        organisation,
        since=timezone.now() - DAY,
        model_id=model.pk,
        pool_id=None if pool is None else pool.pk,
    )
    before = None if row is None else _cost(traffic, price_at({}, row))
    after = _cost(traffic, price_at(changes, row))
    known = before is not None and after is not None
    return Impact(
        figures_title="Impact, the last 24 h at both prices",
        figures=(
            Figure(
                f"Cost of {model.name}",
                "unknown" if before is None else dollars(before),
                "unknown" if after is None else dollars(after),
                _moved(before or 0, after or 0) if known else "",
            ),
        ),
        reach=(
            Reach("Requests", f"{count(traffic.requests)} in the last 24 h"),
            Reach("Projects", ", ".join(traffic.projects) or "none called it in the last 24 h"),
        ),
        checks=(*_told_of(changes, after), *checks_of(draft, PRICES.key)),
    )


def _told_of(changes: Mapping[str, Any], after: int | None) -> Sequence[Check]:
    begins = changes.get("effective_from")
    words = "What was booked stays as it is; the price counts from now on."
    if begins is not None and begins > timezone.now():
        words = "What was booked stays as it is; gateways take the price when it begins."
    elif begins is not None:
        words = "What was booked stays as it is, also what came since it begins."
    told = [Check("info", words)]
    if after is None:
        told.append(Check("warn", "Requests will cost an unknown amount, which is not 0."))
    return told


def _cost(traffic: Traffic, price: PriceUsed | None) -> int | None:
    usage = Usage(traffic.prompt_tokens, traffic.completion_tokens, traffic.cached_tokens)
    total = cost_of_many(usage, price, requests=traffic.requests)
    # to the cent's hundredth: an estimate doesn't pretend to nano-dollars
    return None if total is None else round(total / 100_000) * 100_000


def _moved(before: int, after: int) -> str:
    if before == after:
        return "no change"
    arrow = "▲" if after > before else "▼"
    return f"{arrow} {100 * abs(after - before) / before:.0f} %" if before else f"{arrow} from $0"

"""The pages of what our own GPUs cost: prices of an hour, and own cost beside list price."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.api_calls import reading
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact
from controlplane.console.formats import (
    NO_PRICE,
    UNKNOWN,
    count,
    dollars,
    minute,
    money,
    signed_dollars,
)
from controlplane.console.forms.repricings import GpuPriceForm
from controlplane.console.lists import NUMBER, Empty, ListPage, NounTable, WhenColumn
from controlplane.console.nouns import GPU_PRICES
from controlplane.console.pages import Crumb, Page
from controlplane.decisions.gpu_costs import DEFAULT_HOUR_NANOUSD, OwnCostKind
from controlplane.errors import NotAllowed
from controlplane.models import GpuPrice
from controlplane.selectors.correction_filters import GpuPriceFilters
from controlplane.selectors.gpu_costs import GROUPS, CostLine, get_own_costs, list_gpu_prices
from controlplane.selectors.margins import GROUPS as MARGIN_GROUPS
from controlplane.selectors.margins import get_margins
from controlplane.selectors.names import list_names
from controlplane.services.actors import Actor
from controlplane.services.gpu_prices import create_gpu_price, delete_gpu_price

SPANS: Mapping[str, timedelta] = {
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
MARGIN_SPANS: Mapping[str, int] = {"1d": 1, "7d": 7, "30d": 30, "90d": 90, "365d": 365}
"""Days of the organisation's zone, today the last of them."""

_KINDS = {
    OwnCostKind.IDLE.value: "Idle",
    OwnCostKind.UNATTRIBUTED.value: "Without reported tokens",
}
_HOUR_S = 3_600


class OwnCostPage(Page):
    """What the hours of our GPUs cost, by who used them, beside what was booked at list price."""

    template_name = "console/own_costs.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Cost"), Crumb("GPU cost"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show a span by a group."""
        access, organisation = self.scope.access, self.scope.organisation
        if not access.reads_organisation(organisation.pk):
            raise NotAllowed("What GPUs cost is told to roles of the whole organisation.")
        span = request.GET.get("span", "")
        span = span if span in SPANS else "24h"
        group = request.GET.get("group", "")
        group = group if group in GROUPS else "pool"
        now = timezone.now()
        since = (now - SPANS[span]).replace(minute=0, second=0, microsecond=0)
        found = get_own_costs(access, organisation, since=since, until=now, group=group)
        names = list_names(access, {line.value for line in found.lines if line.value})
        asked = QueryDict(mutable=True)
        asked.update({"since": since.isoformat(), "until": now.isoformat(), "group": group})
        context = {
            "span": span,
            "spans": list(SPANS),
            "group": group,
            "groups": list(GROUPS),
            "since": since,
            "computed_at": found.computed_at,
            "lines": [_told(line, group, names) for line in found.lines],
            "totals": _totals(found.lines),
            "api": reading(request, self.scope, reverse("api-own-cost-list"), asked),
        }
        return self.render(context)


class MarginPage(Page):
    """What customers are asked for what was served, beside what it was booked at."""

    template_name = "console/margins.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Cost"), Crumb("Margin"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show a span by a group."""
        access, organisation = self.scope.access, self.scope.organisation
        if not access.reads_organisation(organisation.pk):
            raise NotAllowed("Margins are told to roles of the whole organisation.")
        span = request.GET.get("span", "")
        span = span if span in MARGIN_SPANS else "30d"
        group = request.GET.get("group", "")
        group = group if group in MARGIN_GROUPS else "team"
        now = timezone.now()
        since = now - timedelta(days=MARGIN_SPANS[span] - 1)
        found = get_margins(access, organisation, since=since, until=now, group=group)
        lines = found.lines
        names = list_names(access, {line.value for line in lines if line.value})
        asked = QueryDict(mutable=True)
        asked.update({"since": since.isoformat(), "until": now.isoformat(), "group": group})
        context = {
            "span": span,
            "spans": list(MARGIN_SPANS),
            "group": group,
            "groups": list(MARGIN_GROUPS),
            "since": found.since,
            "lines": [
                {
                    "name": names.get(line.value, line.value),
                    "attempts": count(line.attempts),
                    "revenue": _partly(line.revenue_nanousd, line.unknown_revenue, line.attempts),
                    "per_mtok": _unit(line.revenue_nanousd_per_mtok),
                    "per_attempt": _unit(line.revenue_nanousd_per_attempt),
                    "cost": _partly(line.cost_nanousd, line.unknown_cost, line.attempts),
                    "margin": UNKNOWN
                    if line.margin_nanousd is None
                    else signed_dollars(line.margin_nanousd),
                }
                for line in lines
            ],
            "api": reading(request, self.scope, reverse("api-margin-list"), asked),
        }
        return self.render(context)


def _partly(nanousd: int, unknown: int, attempts: int) -> str:
    """A sum, with how much it leaves out; "not known" of nothing else."""
    if not unknown:
        return dollars(nanousd)
    if unknown >= attempts:
        return "not known"
    return f"{dollars(nanousd)} and {count(unknown)} unknown"


def _unit(nanousd: int | None) -> str:
    return UNKNOWN if nanousd is None else money(nanousd)


def _told(line: CostLine, group: str, names: Mapping[str, str]) -> Mapping[str, str]:
    name = names.get(line.value, line.value)
    kind = _KINDS.get(line.kind)
    return {
        "name": (f"{kind}, {name}" if group == "pool" and name else kind) if kind else name,
        "is_work": "" if kind else "1",
        "hours": f"{line.gpu_seconds / _HOUR_S:,.2f}",
        "tokens": count(line.tokens) if not kind else UNKNOWN,
        "own": _cost(line.own_nanousd),
        "per_mtok": _cost(line.own_nanousd_per_mtok) if not kind else UNKNOWN,
        "listed": UNKNOWN
        if kind
        else (NO_PRICE if line.list_nanousd is None else dollars(_round(line.list_nanousd))),
    }


def _cost(nanousd: int | None) -> str:
    return "not known" if nanousd is None else dollars(_round(nanousd))


def _round(nanousd: int) -> int:
    """To the cent's hundredth: shared time doesn't pretend to nano-dollars."""
    return round(nanousd / 100_000) * 100_000


def _totals(lines: Sequence[CostLine]) -> Mapping[str, str] | None:
    """All GPU hours, what they cost, and how much of them was idle."""
    seconds = sum(line.gpu_seconds for line in lines)
    if not seconds:
        return None
    idle = sum(line.gpu_seconds for line in lines if line.kind == OwnCostKind.IDLE.value)
    known = [line.own_nanousd for line in lines if line.own_nanousd is not None]
    return {
        "hours": f"{seconds / _HOUR_S:,.2f}",
        "idle": f"{100 * idle / seconds:.1f}",
        "own": dollars(_round(sum(known))) if len(known) == len(lines) else "not known",
        "hour": dollars(_round(round(sum(known) * _HOUR_S / seconds)))
        if len(known) == len(lines)
        else "not known",
    }


class GpuPriceTable(NounTable):
    """Prices of a GPU's hour, by type, class and beginning."""

    gpu_type = Column("GPU", attrs={"td": {"class": "nw mono"}})
    capacity_class = Column("Class", attrs={"td": {"data-l": "Class"}})
    hour_nanousd = Column("USD a GPU-hour", attrs=NUMBER)
    effective_from = WhenColumn("In force from")

    caption = "Prices of a GPU's hour"

    def render_gpu_type(self, value: str, record: GpuPrice) -> SafeString:
        return format_html('<a href="{}">{}</a>', GPU_PRICES.detail_url(record.pk), value)

    def render_capacity_class(self, record: GpuPrice) -> str:
        return record.get_capacity_class_display()

    def render_hour_nanousd(self, value: int) -> str:
        return dollars(value)


class GpuPriceList(ListPage):
    noun = GPU_PRICES
    selector = staticmethod(list_gpu_prices)
    filters = GpuPriceFilters
    table = GpuPriceTable
    order = "gpu_type"
    intro = "USD an hour of one GPU, by how it is had"
    api_orders: ClassVar[Mapping[str, str]] = {}
    empty = Empty(
        "No price of a GPU's hour was set",
        "Until then these are taken: "
        + ", ".join(
            f"{gpu} {name.replace('_', '-')} {dollars(amount)}"
            for (gpu, name), amount in DEFAULT_HOUR_NANOUSD.items()
        )
        + ". What other GPUs cost isn't known.",
    )


class GpuPriceDetail(DetailPage):
    noun = GPU_PRICES
    selector = staticmethod(list_gpu_prices)
    is_edited = False

    def title_of(self, row: GpuPrice) -> str:
        return f"{row.gpu_type} {row.get_capacity_class_display()}"

    def facts_of(self, row: GpuPrice) -> Sequence[Fact]:
        return (
            Fact("GPU", row.gpu_type),
            Fact("Class", row.get_capacity_class_display()),
            Fact("GPU-hour", dollars(row.hour_nanousd)),
            Fact("In force from", minute(row.effective_from, self.scope.zone)),
            Fact("Id", row.pk, is_mono=True),
        )


class GpuPriceCreate(CreatePage):
    noun = GPU_PRICES
    form_class = GpuPriceForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> GpuPrice:
        return create_gpu_price(actor, organisation=self.scope.organisation, **values)


class GpuPriceDelete(DeletePage):
    noun = GPU_PRICES
    selector = staticmethod(list_gpu_prices)

    def title_of(self, row: GpuPrice) -> str:
        return f"{row.gpu_type} {row.get_capacity_class_display()}"

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_gpu_price(actor, gpu_price_id=row.pk, expected_version=expected_version)

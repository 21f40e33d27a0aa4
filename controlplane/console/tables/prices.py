"""The table of prices."""

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import NO_PRICE, UNKNOWN, dollars
from controlplane.console.lists import NounTable, when
from controlplane.console.nouns import PRICES
from controlplane.models import Price


def _money(label: str, short: str) -> Column:
    return Column(
        label,
        orderable=False,
        empty_values=(),
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": short}},
    )


class PriceTable(NounTable):
    """Prices in force in USD per 1M tokens, by model, and the next version of each."""

    model = Column("Model", order_by="model__name", attrs={"td": {"class": "nw mono"}})
    pool = Column(
        "In pool",
        order_by="pool__name",
        empty_values=(),
        attrs={"td": {"class": "nw", "data-l": "In pool"}},
    )
    input_nanousd_per_mtok = _money("Input", "Input")
    cached_input_nanousd_per_mtok = _money("Cached input", "Cached")
    output_nanousd_per_mtok = _money("Output", "Output")
    effective_from = Column(
        "In force since",
        orderable=False,
        empty_values=(),
        attrs={"td": {"class": "nw", "data-l": "Since"}},
    )
    next = Column(
        "Next", orderable=False, empty_values=(), attrs={"td": {"class": "nw", "data-l": "Next"}}
    )

    caption = "Prices in USD per 1M tokens"

    def render_model(self, record: Price) -> SafeString:
        url = PRICES.detail_url(record.pk)
        return format_html('<a href="{}">{}</a>', url, record.model.name)

    def render_pool(self, record: Price) -> str:
        return "any" if record.pool is None else record.pool.name

    def render_input_nanousd_per_mtok(self, record: Price) -> str:
        amount = record.input_nanousd_per_mtok
        return NO_PRICE if amount is None else dollars(amount)

    def render_output_nanousd_per_mtok(self, record: Price) -> str:
        amount = record.output_nanousd_per_mtok
        return NO_PRICE if amount is None else dollars(amount)

    def render_cached_input_nanousd_per_mtok(self, record: Price) -> str:
        amount = record.cached_input_nanousd_per_mtok
        return UNKNOWN if amount is None else dollars(amount)

    def render_effective_from(self, record: Price) -> str:
        begun = record.effective_from
        return UNKNOWN if begun is None else when(begun, self.scope, self.now)

    def render_next(self, record: Price) -> str:
        following = record.next
        if following is None:
            return UNKNOWN
        begins = when(following.effective_from, self.scope, self.now)
        if following.input_nanousd_per_mtok is None:
            return format_html("ends {}", begins)
        into, out = following.input_nanousd_per_mtok, following.output_nanousd_per_mtok
        return format_html("{} / {} from {}", dollars(into), dollars(out or 0), begins)

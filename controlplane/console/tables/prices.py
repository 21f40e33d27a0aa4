"""The table of prices."""

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import dollars
from controlplane.console.lists import NounTable, WhenColumn
from controlplane.console.nouns import PRICES
from controlplane.models import Price


def _money(label: str, short: str) -> Column:
    return Column(label, attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": short}})


class PriceTable(NounTable):
    """Prices in USD per 1M tokens, by model."""

    model = Column("Model", order_by="model__name", attrs={"td": {"class": "nw mono"}})
    input_nanousd_per_mtok = _money("Input", "Input")
    cached_input_nanousd_per_mtok = _money("Cached input", "Cached")
    output_nanousd_per_mtok = _money("Output", "Output")
    updated_at = WhenColumn("In force since")

    caption = "Prices in USD per 1M tokens"

    def render_model(self, record: Price) -> SafeString:
        url = PRICES.detail_url(record.pk)
        return format_html('<a href="{}">{}</a>', url, record.model.name)

    def render_input_nanousd_per_mtok(self, value: int) -> str:
        return dollars(value)

    def render_output_nanousd_per_mtok(self, value: int) -> str:
        return dollars(value)

    def render_cached_input_nanousd_per_mtok(self, value: int) -> str:
        return dollars(value)

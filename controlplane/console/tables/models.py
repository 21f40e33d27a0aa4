"""The table of models."""

from typing import Any

from django_tables2 import Column

from controlplane.console.formats import NO_PRICE, UNKNOWN, count, dollars
from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import MODELS
from controlplane.models import CatalogueModel


class ModelTable(NounTable):
    """Models with what they cost and who serves them."""

    name = NameColumn(MODELS)
    task = Column("Task")
    max_context_tokens = Column(
        "Context, tokens",
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Context"}},
    )
    price = Column(
        "Input / output, USD per 1M",
        order_by="price_input",
        empty_values=(),
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "USD per 1M"}},
    )
    pools = Column("Pools", empty_values=(), orderable=False, attrs={"td": {"data-l": "Pools"}})
    updated_at = WhenColumn("Changed")

    caption = "Models of the catalogue"

    def render_max_context_tokens(self, value: int) -> str:
        return count(value)

    def render_price(self, record: CatalogueModel) -> str:
        price = record.price
        if price is None or not price.is_priced:
            return NO_PRICE
        return f"{dollars(price.input_nanousd_per_mtok)} / {dollars(price.output_nanousd_per_mtok)}"

    def render_pools(self, record: Any) -> str:
        names = [pool.name for pool in record.pools.all()]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return ", ".join(names[:3]) + more if names else UNKNOWN

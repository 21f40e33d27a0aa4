"""The table of routes."""

from collections.abc import Mapping
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import UNKNOWN
from controlplane.console.icons import icon
from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import ROUTES
from controlplane.console.targets import measured_of, shares_of, told
from controlplane.models import Route


class RouteTable(NounTable):
    """Routes with their targets; what was measured comes by `measure`."""

    name = NameColumn(ROUTES)
    is_enabled = Column("State")
    targets = Column("Targets", empty_values=(), orderable=False, attrs={"td": {"data-l": "To"}})
    measured = Column(
        "Measured, last hour",
        empty_values=(),
        orderable=False,
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Last hour"}},
    )
    updated_at = WhenColumn("Changed")

    caption = "Routes with their targets"

    def __init__(self, data: Any, **options: Any) -> None:
        self._attempts: Mapping[str, Mapping[str, int]] | None = None
        super().__init__(data, **options)

    def measure(self, attempts: Mapping[str, Mapping[str, int]]) -> None:
        """Take attempts by route and pool; without a call they aren't known."""
        self._attempts = attempts

    def render_is_enabled(self, value: bool) -> SafeString:
        if value:
            return format_html('<span class="st ok">{}On</span>', icon("ok"))
        return format_html('<span class="st idle">{}Off</span>', icon("stop"))

    def render_targets(self, record: Route) -> SafeString | str:
        """The first choice with shares, then how many more there are for when it can't serve."""
        targets = [
            {"pool": one.pool.name, "weight": one.weight, "tier": one.tier}
            for one in record.targets.all()
        ]
        shares = shares_of(targets)
        parts = ((pool, told(share)) for pool, share in shares.items())
        first = format_html_join(", ", '<span class="mono nb">{}</span> {}', parts) or UNKNOWN
        more = [
            _counted(len(targets) - len(shares), "fallback"),
            _counted(len(record.rules), "rule"),
        ]
        words = ", ".join(filter(None, more))
        return format_html('{} <span class="mut">{}</span>', first, words) if words else first

    def render_measured(self, record: Route) -> str:
        if self._attempts is None:
            return UNKNOWN
        shares = measured_of(self._attempts.get(record.pk, {}))
        if not shares:
            return "no requests"
        pools = dict.fromkeys(one.pool_id for one in record.targets.all())
        return " / ".join(f"{100 * shares.get(pool, 0.0):.1f}" for pool in pools) + " %"


def _counted(number: int, noun: str) -> str:
    """`2 rules`, "" for none."""
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""

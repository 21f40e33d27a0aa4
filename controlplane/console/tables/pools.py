"""The table of pools: what each should be, and what it is doing now."""

from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import (
    UNKNOWN,
    about_dollars,
    count,
    duration,
    elapsed,
    percentage,
)
from controlplane.console.icons import icon
from controlplane.console.lists import NUMBER, NameColumn, NounTable
from controlplane.console.nouns import POOLS
from controlplane.console.pool_facts import PoolsNow, condition_state, ready_words
from controlplane.console.scope import Scope
from controlplane.models import Pool

_P95 = 0.95


def _figure(label: str, *, is_on_card: bool = False) -> Column:
    """A column of live figures: the database can't sort by them."""
    cell = {"class": "num", "data-l": label} if is_on_card else {"class": "num opt"}
    return Column(
        label, orderable=False, empty_values=(), attrs={"th": {"class": "num"}, "td": cell}
    )


class PoolTable(NounTable):
    """Pools with their newest figures; a figure nobody measured is a dash."""

    name = NameColumn(POOLS)
    state = Column("State", orderable=False, empty_values=(), attrs={"td": {"class": "why"}})
    model = Column("Model", order_by="model__name", attrs={"td": {"class": "nw opt"}})
    provisioner = Column("Engine", attrs={"td": {"class": "nw opt"}})
    replicas = Column(
        "Replicas",
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Ready"}},
    )
    utilisation = _figure("Utilised")
    kv_used = _figure("KV cache")
    running = _figure("Running / waiting", is_on_card=True)
    first_token = _figure("First token p95", is_on_card=True)
    cost = _figure("$/h")
    created_at = Column("Age", attrs=NUMBER | {"td": {"class": "num opt"}})

    class Meta:
        # the newest pool is the youngest: age sorts against its column
        sequence = (
            *("name", "state", "model", "provisioner", "replicas", "utilisation", "kv_used"),
            *("running", "first_token", "cost", "created_at"),
        )

    caption = "Pools"

    def __init__(
        self, data: Any, *, scope: Scope, now: datetime, at_work: PoolsNow, **options: Any
    ) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self._at_work = at_work

    def render_state(self, record: Pool) -> SafeString:
        condition = self._at_work.condition(record)
        state = condition_state(condition)
        reason = (
            format_html('<span class="sub">{}</span>', condition.reason) if condition.reason else ""
        )
        return format_html(
            '<span class="st {}">{}{}</span>{}', state.tone, icon(state.icon), state.words, reason
        )

    def render_provisioner(self, record: Pool) -> str:
        return f"{record.backend}, {record.provisioner}"

    def render_replicas(self, record: Pool) -> str:
        return ready_words(self._at_work.condition(record))

    def render_utilisation(self, record: Pool) -> SafeString | str:
        summary = self._at_work.summary(record)
        if summary is None or summary.utilisation is None:
            return UNKNOWN
        what = "GPU" if summary.is_gpu else "CPU"
        return format_html('{} <span class="mut">{}</span>', percentage(summary.utilisation), what)

    def render_kv_used(self, record: Pool) -> str:
        summary = self._at_work.summary(record)
        used = None if summary is None else summary.kv_used
        return percentage(None if used is None else used * 100)

    def render_running(self, record: Pool) -> str:
        summary = self._at_work.summary(record)
        if summary is None or summary.running is None:
            return UNKNOWN
        return f"{count(summary.running)} / {count(summary.waiting)}"

    def render_first_token(self, record: Pool) -> str:
        summary = self._at_work.summary(record)
        return duration(None if summary is None else summary.first_token_ms.get(_P95))

    def render_cost(self, record: Pool) -> str:
        cost = self._at_work.cost_nanousd_per_hour(record)
        return UNKNOWN if cost is None else about_dollars(cost)

    def render_created_at(self, value: datetime) -> str:
        return elapsed((self.now - value).total_seconds())

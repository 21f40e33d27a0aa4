"""The tables of cache policies and of purges."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.details import State
from controlplane.console.icons import icon
from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import CACHES, PURGES, ROUTES
from controlplane.console.scope import Scope
from controlplane.decisions.caches import SCOPE_WORDS, purge_words, ttl_words
from controlplane.models import CachePolicy, Purge
from inference.contract.kinds import CacheScope


def state_of_policy(row: Any) -> State:
    """Whether it is in force, and whether anything has it."""
    if not row.is_enabled:
        return State("Off", "pause", "idle")
    if not row.tiers:
        return State("Only counts", "info", "idle")
    if not row.route_names:
        return State("On no route", "nodata", "idle")
    if row.scope == CacheScope.SHARED:
        return State("On, shared", "warn", "warn")
    return State("On", "ok", "ok")


class PolicyTable(NounTable):
    """Cache policies: where they keep what for whom, and which routes have them."""

    name = NameColumn(CACHES, attrs={"td": {"class": "nw"}})
    tiers = Column("Tiers", orderable=False, attrs={"td": {"data-l": "Tiers"}})
    scope = Column("Shared by", attrs={"td": {"data-l": "Shared by"}})
    ttl_s = Column("Kept", orderable=False, attrs={"td": {"data-l": "Kept"}})
    route_names = Column("Routes", orderable=False, attrs={"td": {"data-l": "Routes"}})
    state = Column("State", order_by="is_enabled", empty_values=())
    updated_at = WhenColumn("Changed", attrs={"td": {"class": "nw opt"}})

    caption = "Cache policies"

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self.routes: Mapping[str, str] = {}

    def render_tiers(self, record: CachePolicy) -> str:
        return ", ".join(record.tiers)

    def render_scope(self, record: CachePolicy) -> str:
        return SCOPE_WORDS[record.scope]

    def render_ttl_s(self, record: CachePolicy) -> str:
        return ttl_words(record.ttl_s)

    def render_route_names(self, value: list[str]) -> SafeString:
        links = ((ROUTES.detail_url(self.routes[one]), one) for one in value if one in self.routes)
        return format_html_join(", ", '<a class="mono" href="{}">{}</a>', links)

    def render_state(self, record: CachePolicy) -> SafeString:
        state = state_of_policy(record)
        return format_html(
            '<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words
        )


class PurgeTable(NounTable):
    """Purges, the newest first."""

    created_at = WhenColumn("When", attrs={"td": {"class": "nw"}})
    value = Column("Takes out", order_by=("kind", "value"), attrs={"td": {"data-l": "Takes out"}})
    made_by = Column("By", attrs={"td": {"class": "nw", "data-l": "By"}})
    reason = Column("Why", orderable=False, attrs={"td": {"data-l": "Why"}})
    epoch = Column("Epoch", attrs={"td": {"class": "num opt"}, "th": {"class": "num"}})

    caption = "Purges"

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self.names: Mapping[str, str] = {}

    def render_value(self, record: Purge) -> SafeString:
        words = purge_words(record.kind, record.value, self.names.get(record.value))
        return format_html('<a href="{}">{}</a>', PURGES.detail_url(record.pk), words)

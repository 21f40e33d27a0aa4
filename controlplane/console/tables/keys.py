"""The table of API keys."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.details import State
from controlplane.console.formats import count
from controlplane.console.icons import icon
from controlplane.console.lists import NUMBER, NameColumn, NounTable, WhenColumn, when
from controlplane.console.nouns import KEYS
from controlplane.console.scope import Scope
from controlplane.decisions.key_states import KeyState, state_of_key
from controlplane.models import Key
from controlplane.selectors.key_use import NO_USE, KeyUse
from inference.contract.sealing import KEY_PREFIX

ALL_ROUTES, NO_ROUTES = "all", "none"
_NAMED = 2
_SHOWN_OF_ID = 10

_STATES: Mapping[KeyState, tuple[str, str]] = {
    KeyState.ACTIVE: ("ok", "ok"),
    KeyState.EXPIRING: ("warn", "warn"),
    KeyState.EXPIRED: ("clock", "idle"),
    KeyState.DISABLED: ("pause", "idle"),
    KeyState.REVOKED: ("stop", "idle"),
}


def state_of(key: Key, now: datetime) -> KeyState:
    """The key's state as a kind."""
    return state_of_key(
        is_enabled=key.is_enabled, expires_at=key.expires_at, revoked_at=key.revoked_at, now=now
    )


def told_state(key: Key, now: datetime) -> State:
    """The key's state as word, icon and tone."""
    kind = state_of(key, now)
    words = "Expires soon" if kind is KeyState.EXPIRING else kind.value.capitalize()
    icon_name, tone = _STATES[kind]
    return State(words, icon_name, tone)


def prefix_of(key: Key) -> str:
    """How the key's text begins: enough to recognise it, useless without its secret."""
    return f"{KEY_PREFIX}{key.public_id}"


def routes_words(key: Key, most: int = _NAMED) -> str:
    """The routes a key reaches: all, none, or the first few by name."""
    if not key.is_restricted:
        return ALL_ROUTES
    names = sorted(route.name for route in key.routes.all())
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else NO_ROUTES


def last_used_words(last_day: date | None, today: date) -> str:
    """The last day of the organisation with a request; nobody keeps the minute of it."""
    if last_day is None:
        return "not in 30 days"
    days = (today - last_day).days
    if days <= 0:
        return "today"
    return "yesterday" if days == 1 else f"{days} days ago"


class KeyTable(NounTable):
    """Keys with what they reach and how much they are used; never a secret."""

    name = NameColumn(KEYS, attrs={"td": {"class": "nw"}})
    prefix = Column(
        "Prefix", accessor="pk", orderable=False, attrs={"td": {"class": "mono nw opt"}}
    )
    project = Column("Project", order_by="project__name", attrs={"td": {"class": "nw opt"}})
    scopes = Column("Scopes", orderable=False, attrs={"td": {"class": "nw opt"}})
    routes = Column("Routes", orderable=False, empty_values=(), attrs={"td": {"class": "opt"}})
    expires_at = WhenColumn("Expires", default="never")
    used = Column(
        "Last used, day",
        orderable=False,
        empty_values=(),
        attrs={"td": {"class": "nw", "data-l": "Used"}},
    )
    requests = Column(
        "Requests, 30 days",
        orderable=False,
        empty_values=(),
        attrs=NUMBER | {"td": {"class": "num", "data-l": "Requests"}},
    )
    state = Column("State", orderable=False, empty_values=())
    created_at = WhenColumn("Made", attrs={"td": {"class": "nw opt"}})

    caption = "API keys"

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self.use: Mapping[str, KeyUse] = {}

    def render_prefix(self, record: Key) -> SafeString:
        whole = prefix_of(record)
        shown = whole[: len(KEY_PREFIX) + _SHOWN_OF_ID]
        return format_html('<span title="{}">{}…</span>', whole, shown)

    def render_scopes(self, record: Key) -> str:
        return ", ".join(record.scopes)

    def render_routes(self, record: Key) -> str:
        return routes_words(record)

    def render_expires_at(self, record: Key) -> SafeString:
        assert record.expires_at is not None
        return when(record.expires_at, self.scope, self.now)

    def render_used(self, record: Key) -> str:
        use = self.use.get(record.public_id, NO_USE)
        return last_used_words(use.last_day, self.now.date())

    def render_requests(self, record: Key) -> str:
        return count(self.use.get(record.public_id, NO_USE).requests)

    def render_state(self, record: Key) -> SafeString:
        state = told_state(record, self.now)
        return format_html(
            '<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words
        )

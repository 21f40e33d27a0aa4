"""The table of limits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.details import State
from controlplane.console.icons import icon
from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import LIMITS
from controlplane.console.scope import Scope
from controlplane.decisions.limits import amount_words
from controlplane.decisions.subjects import subject_words
from controlplane.models import Limit


def state_of_limit(row: Any) -> State:
    """Whether it is in force, and whether another counts the same."""
    if not row.is_enabled:
        return State("Off", "pause", "idle")
    if row.duplicates:
        return State("On, counted twice", "warn", "warn")
    return State("On", "ok", "ok")


class LimitTable(NounTable):
    """Limits with what each counts, in words."""

    name = NameColumn(LIMITS, attrs={"td": {"class": "nw"}})
    amount = Column("Allows", attrs={"td": {"data-l": "Allows"}})
    subject = Column("For", order_by=("subject", "subject_id"), attrs={"td": {"data-l": "For"}})
    enforcement = Column("If the store is away", attrs={"td": {"class": "nw opt"}})
    state = Column("State", order_by="is_enabled", empty_values=())
    updated_at = WhenColumn("Changed", attrs={"td": {"class": "nw opt"}})

    caption = "Limits"

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self.names: Mapping[str, str] = {}

    def render_amount(self, record: Limit) -> str:
        return amount_words(record.unit, record.window, record.amount)

    def render_subject(self, record: Limit) -> str:
        return subject_words(
            record.subject, record.subject_id, self.names.get(record.subject_id or "")
        )

    def render_enforcement(self, record: Limit) -> str:
        return "refuses" if record.enforcement == "strict" else "serves and marks"

    def render_state(self, record: Limit) -> SafeString:
        state = state_of_limit(record)
        return format_html(
            '<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words
        )

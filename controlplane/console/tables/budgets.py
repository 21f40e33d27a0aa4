"""The table of budgets: what each allows, and how it stands."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.bridge.budget_status import Standing
from controlplane.console.budget_facts import meter, state_of
from controlplane.console.formats import UNKNOWN, dollars
from controlplane.console.icons import icon
from controlplane.console.lists import NUMBER, NameColumn, NounTable, when
from controlplane.console.nouns import BUDGETS
from controlplane.console.scope import Scope
from controlplane.decisions.budgets import each_of, period_words, scopes_words
from controlplane.models import Budget


class BudgetTable(NounTable):
    """Budgets; one that counts several apart is told by the account that spent the most."""

    name = NameColumn(BUDGETS, attrs={"td": {"class": "nw"}})
    amount_nanousd = Column("Budget", attrs={"td": {"data-l": "Budget"}})
    scopes = Column("For", orderable=False, attrs={"td": {"data-l": "For"}})
    spent = Column("Spent", orderable=False, empty_values=(), attrs={"td": {"data-l": "Spent"}})
    left = Column(
        "Left",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "Left"}},
    )
    state = Column("State", order_by="is_enabled", empty_values=())
    ends = Column(
        "Starts anew", orderable=False, empty_values=(), attrs={"td": {"class": "nw opt"}}
    )

    caption = "Budgets"

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        super().__init__(data, scope=scope, now=now, **options)
        self.names: Mapping[str, str] = {}
        self.standings: Mapping[str, Standing] = {}

    def render_amount_nanousd(self, record: Budget) -> str:
        words = period_words(record.period, is_rolling=record.is_rolling)
        return f"{dollars(record.amount_nanousd)} {words}"

    def render_scopes(self, record: Budget) -> str:
        return scopes_words(record.scopes, self.names)

    def render_spent(self, record: Budget) -> SafeString | str:
        standing = self.standings.get(record.pk)
        if standing is None:
            return UNKNOWN
        note = "the most" if each_of(record.scopes) else ""
        told = format_html(
            '{}<span class="nb">{}</span>',
            meter(standing.balance),
            dollars(standing.balance.spent_nanousd),
        )
        return format_html('{}<span class="sub">{}</span>', told, note) if note else told

    def render_left(self, record: Budget) -> str:
        standing = self.standings.get(record.pk)
        return UNKNOWN if standing is None else dollars(standing.balance.left_nanousd)

    def render_state(self, record: Budget) -> SafeString:
        standing = self.standings.get(record.pk)
        state = state_of(record, None, None)
        if standing is not None:
            state = state_of(record, standing.balance, standing.state)
        return format_html(
            '<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words
        )

    def render_ends(self, record: Budget) -> SafeString | str:
        standing = self.standings.get(record.pk)
        if record.is_rolling:
            return "bit by bit"
        return UNKNOWN if standing is None else when(standing.ends_at, self.scope, self.now)

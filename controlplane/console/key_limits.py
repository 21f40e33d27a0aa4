"""What a key's page tells of its requests: what they are, what limits and budgets bind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.bridge.budget_status import read_standings
from controlplane.console.budget_facts import state_of
from controlplane.console.budget_traces import holding_back
from controlplane.console.details import Fact, State
from controlplane.console.forms.keys import AS_THE_ROUTE
from controlplane.console.nouns import BUDGETS, LIMITS
from controlplane.console.scope import Scope
from controlplane.console.tables.limits import state_of_limit
from controlplane.decisions.budgets import budget_words, scopes_words
from controlplane.decisions.limits import limit_words
from controlplane.decisions.subjects import subject_words
from controlplane.models import Key
from controlplane.selectors.budgets import about_key, list_budgets, list_scope_names
from controlplane.selectors.limits import counting_key, list_limits
from controlplane.selectors.subjects import list_subject_names

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit, in words."""

    name: str
    url: str
    words: str
    state: State


def requests_facts(key: Key) -> Sequence[Fact]:
    """Priority, task and tags of a key's requests."""
    return (
        Fact("Priority", key.get_priority_display()),
        Fact("Task", key.get_default_task_display() or AS_THE_ROUTE),
        Fact("Tags", ", ".join(key.tags) or "none"),
    )


def limits_context(scope: Scope, key: Key) -> Mapping[str, Any]:
    """The limits that count every request of a key, and where to go on from them."""
    found = counting_key(list_limits(scope.access), key.pk).order_by("name")
    rows = list(found.filter(organisation_id=key.organisation_id)[:_SHOWN])
    names = list_subject_names(scope.access, rows)
    may_write = scope.access.may_write(LIMITS.key, key.organisation_id)
    new = f"{LIMITS.create_url()}?subject=key&subject_id={key.pk}"
    return {
        "limits": [_line(row, names) for row in rows],
        "limits_url": f"{LIMITS.list_url()}?key={key.pk}",
        "new_limit_url": new if may_write and key.revoked_at is None else "",
    }


def budgets_context(scope: Scope, key: Key, now: datetime) -> Mapping[str, Any]:
    """The budgets that may bear on requests of a key, as they stand."""
    found = about_key(list_budgets(scope.access), key.pk).select_related("organisation")
    rows = list(found.filter(organisation_id=key.organisation_id).order_by("name")[:_SHOWN])
    names = list_scope_names(scope.access, rows)
    standings = read_standings(scope.access, rows, now)
    may_write = scope.access.may_write(BUDGETS.key, key.organisation_id)
    new = f"{BUDGETS.create_url()}?subject_1=key&which_1={key.pk}"
    return {
        "budgets": [_budget_line(row, names, standings.get(row.pk)) for row in rows],
        "holding_back": holding_back(rows, standings, now),
        "budgets_url": f"{BUDGETS.list_url()}?key={key.pk}",
        "new_budget_url": new if may_write and key.revoked_at is None else "",
    }


def _budget_line(row: Any, names: Mapping[str, str], standing: Any) -> LimitLine:
    about = scopes_words(row.scopes, names)
    words = budget_words(row.amount_nanousd, row.period, about, is_rolling=row.is_rolling)
    state = state_of(row, None)
    if standing is not None:
        state = state_of(row, standing.balance, standing.state)
    return LimitLine(row.name, BUDGETS.detail_url(row.pk), words, state)


def _line(row: Any, names: Mapping[str, str]) -> LimitLine:
    about = subject_words(row.subject, row.subject_id, names.get(row.subject_id or ""))
    words = limit_words(row.unit, row.window, row.amount, about)
    return LimitLine(row.name, LIMITS.detail_url(row.pk), words, state_of_limit(row))

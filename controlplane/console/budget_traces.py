"""What budgets did to one request, as its page tells it: by name, with how they stand now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from controlplane.bridge.budget_status import Standing, read_standings
from controlplane.console.formats import dollars, minute
from controlplane.console.nouns import BUDGETS
from controlplane.console.scope import Scope
from controlplane.decisions.budget_effects import REFUSING_S, Effect
from controlplane.decisions.budgets import BudgetState
from controlplane.models import Budget, Request
from controlplane.selectors.budget_effects import list_effects
from controlplane.selectors.budgets import list_budgets

_LATELY = timedelta(hours=2)
"""What budgets did is kept by the hour."""


@dataclass(frozen=True, slots=True)
class BudgetTrace:
    """One budget that bore on a request; `note` is what it did, "" if it let the request pass."""

    name: str
    url: str
    note: str = ""
    words: str = ""
    icon: str = "info"
    tone: str = "n-info"


def budgets_of_request(scope: Scope, row: Request) -> Sequence[BudgetTrace]:
    """The budgets of a request's decision record; one that is gone goes by its id."""
    record = _record_of(row)
    ids = _ids_in(record)
    if not ids:
        return ()
    visible = list_budgets(scope.access).filter(pk__in=ids).select_related("organisation")
    there = {one.pk: one for one in visible}
    acted = [one for one in ids if _note(record, one)]
    words = _standing_words(scope, [there[one] for one in acted if one in there])
    return [
        BudgetTrace(
            name=there[one].name if one in there else f"{one} (gone since, or not yours to see)",
            url=BUDGETS.detail_url(one) if one in there else "",
            note=_note(record, one),
            words=words.get(one, ""),
            icon="crit" if one == record.get("refused") else "warn",
            tone="n-crit" if one == record.get("refused") else "n-warn",
        )
        for one in ids
    ]


def _record_of(row: Request) -> Mapping[str, Any]:
    found = (row.decision or {}).get("budgets")
    return found if isinstance(found, Mapping) else {}


def _ids_in(record: Mapping[str, Any]) -> Sequence[str]:
    """Each once, the one that refused first."""
    first = [record[name] for name in ("refused",) if isinstance(record.get(name), str)]
    every = [*first, *record.get("passed_over", ()), *record.get("kept", ())]
    return list(dict.fromkeys(one for one in every if isinstance(one, str)))


def _note(record: Mapping[str, Any], budget_id: str) -> str:
    if budget_id == record.get("refused"):
        return "Refused by the budget"
    if budget_id in record.get("passed_over", ()):
        return "A model was passed over because of the budget"
    return ""


def _standing_words(scope: Scope, budgets: Sequence[Budget]) -> Mapping[str, str]:
    """How they stand now, as far as the reader may know."""
    standings = read_standings(scope.access, budgets, timezone.now())
    found = {}
    for one in budgets:
        standing = standings.get(one.pk)
        if standing is not None:
            balance, ends = standing.balance, minute(standing.ends_at, scope.zone)
            anew = (
                "what is oldest leaves it bit by bit"
                if one.is_rolling
                else f"it starts anew {ends}"
            )
            amounts = f"{dollars(balance.spent_nanousd)} of {dollars(balance.amount_nanousd)}"
            found[one.pk] = f"now {amounts} is spent; {anew}.{_owner_words(one)}"
    return found


def _owner_words(budget: Budget) -> str:
    return f" Its owner is {budget.owner}." if budget.owner else ""


def holding_back(
    budgets: Sequence[Budget], standings: Mapping[str, Standing], now: datetime
) -> Sequence[BudgetTrace]:
    """Those of these budgets that refuse requests now, for a banner: used up, or by what they did.

    What a budget refused is told to whoever may see it, what was spent only to who may know.
    """
    effects = list_effects([one.pk for one in budgets], now - _LATELY)
    found = []
    for one in budgets:
        standing, told = standings.get(one.pk), effects.get(one.pk, {}).get(Effect.REFUSED)
        is_blocked = standing is not None and standing.state is BudgetState.BLOCKED
        is_lately = told is not None and (now - told.last_at).total_seconds() < REFUSING_S
        if one.is_enabled and (is_blocked or is_lately):
            note = "Requests are refused by the budget"
            words = "it is used up." if is_blocked else "too little is left for some of them."
            url = BUDGETS.detail_url(one.pk)
            words += _owner_words(one)
            found.append(BudgetTrace(one.name, url, note, words, "crit", "n-crit"))
    return found

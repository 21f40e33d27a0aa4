"""Budgets that are nearly or wholly used up, for the pages of those they count for."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.bridge.budget_counters import NOTHING
from controlplane.bridge.budgets import read_reserved
from controlplane.compiler import budget_record
from controlplane.decisions.budget_warnings import BudgetWarning, is_acting, warns
from controlplane.decisions.budgets import balance_of, scopes_words
from controlplane.models import Budget, BudgetAccount, Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.budget_warnings import MOST_WARNINGS, Chain, list_binding, list_warned
from controlplane.selectors.budgets import reached_ids, row_id
from controlplane.selectors.names import list_names


def read_warnings(
    access: Access, organisation: Organisation, chain: Chain, now: datetime
) -> Sequence[BudgetWarning]:
    """What is to be told to who works with these, what refuses first; a few at most."""
    budgets = [(one, budget_record(one)) for one in list_binding(access, organisation)]
    rows = list_warned(budgets, organisation, chain, now)
    if not rows:
        return ()
    counters = read_reserved([row.key for _, _, row, _ in rows if row.key])
    names = list_names(access, {one for budget, _, row, _ in rows for one in _ids(budget, row)})
    found = []
    for budget, record, row, ends_at in rows:
        held = None if counters is None else counters.get(row.key, NOTHING).reserved
        balance = balance_of(
            record,
            budget.thresholds_percent,
            spent_nanousd=row.spent_nanousd,
            reserved_nanousd=held,
            now_s=now.timestamp(),
        )
        acting = is_acting(record, balance, now.timestamp())
        if warns(balance, acting=acting):
            found.append(
                BudgetWarning(
                    budget_id=budget.pk,
                    name=budget.name,
                    owner=budget.owner,
                    about=_about(budget, row, names),
                    state=balance.state,
                    is_acting=acting,
                    action=record.action,
                    throttle_per_minute=record.throttle_per_minute,
                    is_rolling=record.is_rolling,
                    ends_at=ends_at,
                    balance=balance if _may_know(access, budget, row) else None,
                )
            )
    return sorted(found, key=lambda one: not one.is_grave)[:MOST_WARNINGS]


def _ids(budget: Budget, row: BudgetAccount) -> Sequence[str]:
    """The ids of the rows an account counts for, as far as it tells."""
    told = [one["subject_id"] for one in budget.scopes if one["subject_id"] is not None]
    pairs = zip(budget.scopes, row.subjects, strict=False)
    return [*told, *(row_id(scope["subject"], own) for scope, own in pairs)]


def _about(budget: Budget, row: BudgetAccount, names: Mapping[str, str]) -> str:
    """Whom the account counts for, in words."""
    own = [
        {
            "subject": scope["subject"],
            "subject_id": row_id(scope["subject"], row.subjects[place])
            if len(row.subjects) > place
            else scope["subject_id"],
        }
        for place, scope in enumerate(budget.scopes)
    ]
    return scopes_words(own, names)


def _may_know(access: Access, budget: Budget, row: BudgetAccount) -> bool:
    """Whether the reader may know what the account spent: all of it is of what his roles reach."""
    home = budget.organisation_id
    if access.reads_organisation(home):
        return True
    pairs = zip(budget.scopes, row.subjects, strict=False)
    return any(own in reached_ids(access, home, scope["subject"]) for scope, own in pairs)

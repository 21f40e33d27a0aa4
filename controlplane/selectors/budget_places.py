"""Accounts of budgets that are near a threshold, as places where alerts are watched."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import QuerySet

from controlplane.decisions.alerts import CLEAR_SHARE
from controlplane.models import (
    Budget,
    BudgetAccount,
    CatalogueModel,
    Key,
    Project,
    Route,
    Team,
)
from controlplane.selectors.budgets import row_id
from inference.contract.wire import limits_counter_key
from inference.decisions.budgets import dollars

MOST_ACCOUNTS = 300
"""Of one budget: those that spent the most. More alerts at once tell nobody anything."""

_NAMED = (Team, Project, Key, CatalogueModel, Route)
_COLON = ":"


@dataclass(frozen=True, slots=True)
class Near:
    """An account that has all but reached a threshold of its budget, or passed it."""

    id: str
    name: str
    threshold_percent: float


def list_near(organisation_id: str | None, budget_id: str | None, now: datetime) -> Sequence[Near]:
    """The accounts of periods under way, once for each threshold that they are near to."""
    budgets = Budget.objects.filter(is_enabled=True)
    if organisation_id is not None:
        budgets = budgets.filter(organisation_id=organisation_id)
    if budget_id is not None:
        budgets = budgets.filter(pk=budget_id)
    found: list[tuple[Budget, BudgetAccount, int]] = []
    for budget in budgets.order_by("name"):
        amount = _amount(budget, now)
        if budget.thresholds_percent and amount:
            least = int(amount * min(budget.thresholds_percent) / 100 * CLEAR_SHARE)
            rows = _current(now).filter(budget_id=budget.pk, spent_nanousd__gte=max(least, 1))
            found += [(budget, row, amount) for row in rows[:MOST_ACCOUNTS]]
    names = _names_of(found)
    return [
        Near(_place(budget, row, threshold), _words(budget, row, amount, names), float(threshold))
        for budget, row, amount in found
        for threshold in budget.thresholds_percent
        if row.spent_nanousd * 100 >= amount * threshold * CLEAR_SHARE
    ]


def used_percent(ids: Collection[str], now: datetime) -> Mapping[str, float]:
    """How much of its budget the account of each place has spent."""
    parts = {one: one.split(_COLON) for one in ids}
    budgets = Budget.objects.in_bulk({budget_id for budget_id, _, _ in parts.values()})
    amounts = {pk: _amount(one, now) for pk, one in budgets.items()}
    keys = {
        one: limits_counter_key(budgets[budget_id].organisation_id, digest)
        for one, (budget_id, digest, _) in parts.items()
        if budget_id in budgets
    }
    rows = {row.key: row for row in _current(now).filter(key__in=sorted(set(keys.values())))}
    return {
        one: 100 * rows[key].spent_nanousd / amounts[rows[key].budget_id]
        for one, key in keys.items()
        if key in rows and amounts.get(rows[key].budget_id)
    }


def budget_of_place(place_id: str) -> str:
    """The id of the budget that a place of alerts belongs to."""
    return place_id.partition(_COLON)[0]


def has_budgets(organisation_id: str | None, budget_id: str | None) -> bool:
    """Whether there is a budget to watch, even if no account is near a threshold of it."""
    rows = Budget.objects.filter(is_enabled=True).exclude(thresholds_percent=[])
    if organisation_id is not None:
        rows = rows.filter(organisation_id=organisation_id)
    return (rows if budget_id is None else rows.filter(pk=budget_id)).exists()


def _amount(budget: Budget, now: datetime) -> int:
    """What may be spent now, raised but without grace."""
    if budget.raised_until is None or now >= budget.raised_until:
        return budget.amount_nanousd
    return max(budget.raised_to_nanousd or 0, budget.amount_nanousd)


def _current(now: datetime) -> QuerySet[BudgetAccount]:
    rows = BudgetAccount.objects.filter(starts_at__lte=now, ends_at__gt=now)
    return rows.order_by("-spent_nanousd", "key")


def _place(budget: Budget, row: BudgetAccount, threshold: int) -> str:
    """`<budget>:<account>:<threshold>`, which is another in each period."""
    return _COLON.join((budget.pk, row.key.rpartition(_COLON)[2], str(threshold)))


def _words(
    budget: Budget, row: BudgetAccount, amount_nanousd: int, names: Mapping[str, str]
) -> str:
    """`budget main (key batch), $100.00 until 2027-01-01 00:00 UTC`: the same for the period."""
    apart = [
        f"{scope['subject'].replace('_', ' ')} {names.get(_id(scope, value), value)}"
        for scope, value in zip(budget.scopes, row.subjects, strict=False)
        if scope["subject_id"] is None and scope["subject"] != "organisation"
    ]
    whose = f" ({', '.join(apart)})" if apart else ""
    until = row.ends_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"budget {budget.name}{whose}, {dollars(amount_nanousd)} until {until}"


def _names_of(found: Iterable[tuple[Budget, BudgetAccount, int]]) -> Mapping[str, str]:
    """The names of those that budgets count apart, by the ids of their rows."""
    ids = {
        _id(scope, value)
        for budget, row, _ in found
        for scope, value in zip(budget.scopes, row.subjects, strict=False)
        if scope["subject_id"] is None
    }
    names: dict[str, str] = {}
    for kind in _NAMED if ids else ():
        names |= dict(kind._default_manager.filter(pk__in=ids).values_list("pk", "name"))
    return names


def _id(scope: Mapping[str, str | None], value: str) -> str:
    return row_id(str(scope["subject"]), value)

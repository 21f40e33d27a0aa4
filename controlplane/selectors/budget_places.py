"""Accounts of budgets that are near a threshold, as places where alerts are watched."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import F, QuerySet

from controlplane.decisions.alerts import CLEAR_SHARE
from controlplane.decisions.budget_forecasts import ahead_words, forecast_rolling
from controlplane.decisions.budgets import (
    FEWEST_STRETCHES,
    STRETCH_S,
    Bucket,
    Forecast,
    forecast_of,
    period_words,
)
from controlplane.decisions.spending import about
from controlplane.models import (
    Budget,
    BudgetAccount,
    CatalogueModel,
    Key,
    Project,
    Route,
    Team,
)
from controlplane.selectors.budget_windows import accounts_in, told
from controlplane.selectors.budgets import OF_CALLERS, list_buckets, row_id
from inference.contract.kinds import BudgetPeriod
from inference.contract.wire import limits_counter_key
from inference.decisions.budgets import ROLLING, Period, dollars

MOST_ACCOUNTS = 300
"""Of one budget: those that spent the most, and at each threshold those that are newly over it.
More alerts at once tell nobody anything."""

_NAMED = (Team, Project, Key, CatalogueModel, Route)
_COLON = ":"


@dataclass(frozen=True, slots=True)
class Near:
    """An account that has all but reached a threshold of its budget, or passed it."""

    id: str
    name: str
    threshold_percent: float


def list_near(
    organisation_id: str | None,
    budget_id: str | None,
    now: datetime,
    *,
    firing: frozenset[str] = frozenset(),
    least_percent: float = 0.0,
) -> Sequence[Near]:
    """The accounts of periods under way, once for each threshold that they are near to.

    First those over a threshold of `least_percent` or more where nothing is `firing`: whoever looks
    at so many at a time comes to all of them.
    """
    budgets = Budget.objects.filter(is_enabled=True)
    if organisation_id is not None:
        budgets = budgets.filter(organisation_id=organisation_id)
    if budget_id is not None:
        budgets = budgets.filter(pk=budget_id)
    found: list[tuple[Budget, BudgetAccount, int]] = []
    thresholds: dict[str, Sequence[int]] = {}
    for budget in budgets.order_by("name"):
        amount = _amount(budget, now)
        mine = [one for one in budget.thresholds_percent if one >= least_percent]
        if mine and amount:
            thresholds[budget.pk] = mine
            rows = _rows_near(_current(budget, now), budget, amount, mine, firing)
            found += [(budget, row, amount) for row in rows]
    names = _names_of(found)
    new: list[Near] = []
    others: list[Near] = []
    for budget, row, amount in found:
        for threshold in thresholds[budget.pk]:
            if row.spent_nanousd * 100 >= amount * threshold * CLEAR_SHARE:
                place = _place(budget, row, threshold)
                near = Near(place, _words(budget, row, amount, names), float(threshold))
                is_over = row.spent_nanousd * 100 >= amount * threshold
                (new if is_over and place not in firing else others).append(near)
    return new + others


def _rows_near(
    rows: QuerySet[BudgetAccount],
    budget: Budget,
    amount_nanousd: int,
    thresholds: Sequence[int],
    firing: frozenset[str],
) -> Iterable[BudgetAccount]:
    least = int(amount_nanousd * min(thresholds) / 100 * CLEAR_SHARE)
    found = {row.key: told(row) for row in rows.filter(spent__gte=max(least, 1))[:MOST_ACCOUNTS]}
    if len(found) < MOST_ACCOUNTS:
        return found.values()
    for threshold in thresholds:
        # rounded up: as little as is over
        over = rows.filter(spent__gte=-(-amount_nanousd * threshold // 100))
        known = _keys_firing(budget, threshold, firing)
        found |= {row.key: told(row) for row in over.exclude(key__in=known)[:MOST_ACCOUNTS]}
    return found.values()


def _keys_firing(budget: Budget, threshold: int, firing: Iterable[str]) -> Sequence[str]:
    """The accounts of a budget whose places fire at a threshold."""
    parts = (one.split(_COLON) for one in firing)
    return sorted(
        limits_counter_key(budget.organisation_id, digest)
        for budget_id, digest, at in parts
        if budget_id == budget.pk and at == str(threshold)
    )


def still_near(ids: Collection[str], now: datetime) -> frozenset[str]:
    """Those of these places that are near their thresholds, though a list may leave them out."""
    used = used_percent(ids, now)
    budgets = Budget.objects.filter(is_enabled=True).in_bulk({budget_of_place(one) for one in used})
    found = set()
    for one, percent in used.items():
        budget_id, _, threshold = one.split(_COLON)
        budget = budgets.get(budget_id)
        is_asked = budget is not None and int(threshold) in budget.thresholds_percent
        if is_asked and percent >= int(threshold) * CLEAR_SHARE:
            found.add(one)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Foretold:
    """Where an account is going: in per cent of its amount, and what that is made of."""

    percent: float
    words: str


def list_pace(organisation_id: str | None, budget_id: str | None, now: datetime) -> Sequence[Near]:
    """The accounts of periods under way that spent anything: those that spent the most."""
    budgets = Budget.objects.filter(is_enabled=True, amount_nanousd__gt=0)
    if organisation_id is not None:
        budgets = budgets.filter(organisation_id=organisation_id)
    if budget_id is not None:
        budgets = budgets.filter(pk=budget_id)
    found: list[tuple[Budget, BudgetAccount, int]] = []
    for budget in budgets.order_by("name"):
        rows = _current(budget, now).filter(spent__gt=0)
        amount = _amount(budget, now)
        found += [(budget, row, amount) for row in rows[:MOST_ACCOUNTS]]
    names = _names_of(found)
    return [
        Near(f"{budget.pk}:{_digest(row)}", _words(budget, row, amount, names), 0.0)
        for budget, row, amount in found
    ]


def foretold(ids: Collection[str], now: datetime) -> Mapping[str, Foretold]:
    """Where the accounts of these places are going; those of which too little is known are not
    told of."""
    parts = {one: one.split(_COLON) for one in ids}
    budgets = Budget.objects.in_bulk({budget_id for budget_id, _ in parts.values()})
    keys = {
        one: limits_counter_key(budgets[budget_id].organisation_id, digest)
        for one, (budget_id, digest) in parts.items()
        if budget_id in budgets
    }
    rows = {
        row.key: row
        for budget in budgets.values()
        for row in _current(budget, now).filter(key__in=sorted(set(keys.values())))
    }
    buckets = list_buckets(sorted(rows))
    found = {}
    for one, key in keys.items():
        if key in rows:
            budget = budgets[rows[key].budget_id]
            told = _foretold(budget, rows[key], buckets[key], now)
            if told is not None:
                found[one] = told
    return found


def _foretold(
    budget: Budget, row: BudgetAccount, buckets: Sequence[Bucket], now: datetime
) -> Foretold | None:
    amount = _amount(budget, now)
    if budget.is_rolling:
        return _foretold_rolling(budget, row, buckets, amount, now)
    period = Period(int(row.starts_at.timestamp()), int(row.ends_at.timestamp()))
    forecast = forecast_of(
        BudgetPeriod(budget.period),
        period,
        buckets,
        spent_nanousd=row.spent_nanousd,
        amount_nanousd=amount,
        now_s=now.timestamp(),
    )
    least_s = FEWEST_STRETCHES * STRETCH_S[BudgetPeriod(budget.period)]
    if not amount or forecast is None or now.timestamp() - period.starts_s < least_s:
        return None
    if forecast.low_nanousd is None and not _is_by_caller(budget):
        return None
    told = f"{about(row.spent_nanousd)} so far; {about(forecast.at_end_nanousd)} at the end of the"
    told += f" period at this pace{_between(forecast)}; the budget is {about(amount)}."
    return Foretold(100 * forecast.at_end_nanousd / amount, told)


def _between(forecast: Forecast) -> str:
    """The interval; "" of what callers name, for nobody keeps how evenly they spend."""
    if forecast.low_nanousd is None or forecast.high_nanousd is None:
        return ""
    low, high = about(forecast.low_nanousd), about(forecast.high_nanousd)
    return f", four times in five between {low} and {high}"


def _foretold_rolling(
    budget: Budget, row: BudgetAccount, buckets: Sequence[Bucket], amount: int, now: datetime
) -> Foretold | None:
    """A quarter of the length ahead."""
    rolling = ROLLING[BudgetPeriod(budget.period)]
    forecast = forecast_rolling(rolling, buckets, amount_nanousd=amount, now_s=now.timestamp())
    if not amount or forecast is None:
        return None
    ahead = ahead_words(rolling)
    told = f"{about(told_spent(row))} now; {about(forecast.at_end_nanousd)} in {ahead} at the pace"
    told += f" of the last{_between(forecast)}; the budget is {about(amount)}"
    told += f" {period_words(budget.period, is_rolling=True)}."
    return Foretold(100 * forecast.at_end_nanousd / amount, told)


def told_spent(row: BudgetAccount) -> int:
    """What an account spent in its window."""
    return int(row.spent)  # type: ignore[attr-defined]


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
    rows = {
        row.key: told(row)
        for budget in budgets.values()
        for row in _current(budget, now).filter(key__in=sorted(set(keys.values())))
    }
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


def _current(budget: Budget, now: datetime) -> QuerySet[BudgetAccount]:
    """The accounts of the present period, with what each `spent` in it, the most first."""
    if budget.is_rolling:
        window = ROLLING[BudgetPeriod(budget.period)].window(now.timestamp())
        return accounts_in(budget, window).order_by("-spent", "key")
    rows = BudgetAccount.objects.filter(budget_id=budget.pk, starts_at__lte=now, ends_at__gt=now)
    return rows.annotate(spent=F("spent_nanousd")).order_by("-spent", "key")


def _place(budget: Budget, row: BudgetAccount, threshold: int) -> str:
    """`<budget>:<account>:<threshold>`, which is another in each period."""
    return _COLON.join((budget.pk, _digest(row), str(threshold)))


def _is_by_caller(budget: Budget) -> bool:
    """Whether it counts apart what callers name."""
    return any(one["subject"] in OF_CALLERS and one["subject_id"] is None for one in budget.scopes)


def _digest(row: BudgetAccount) -> str:
    return row.key.rpartition(_COLON)[2]


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
    until = "until " + row.ends_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if budget.is_rolling:
        until = period_words(budget.period, is_rolling=True)
    return f"budget {budget.name}{whose}, {dollars(amount_nanousd)} {until}"


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

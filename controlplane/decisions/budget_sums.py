"""What the ends of requests add to the accounts of budgets; how finely an account is told by time.

A cost nobody knows is left out of a sum and counted. What callers name as they like is told by
account and not by time: nobody knows how many there are.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from operator import attrgetter

from inference.contract.events import Charge, End
from inference.contract.kinds import BudgetPeriod
from inference.contract.snapshot import BudgetRecord
from inference.contract.values import changed
from inference.decisions.admission import Requester
from inference.decisions.budgets import (
    FOREVER,
    ROLLING,
    Account,
    Period,
    is_by_caller,
    is_of_model,
    period_of,
    subjects_of,
)

BUCKET_S: Mapping[BudgetPeriod, int] = {
    BudgetPeriod.HOUR: 60,
    BudgetPeriod.DAY: 900,
    BudgetPeriod.WEEK: 3_600,
    BudgetPeriod.MONTH: 3_600,
    BudgetPeriod.QUARTER: 10_800,
}
"""How long the stretches are in which an account is told, by the period of its budget; those of one
that rolls are its steps."""


@dataclass(slots=True)
class Spending:
    """What one account gets: sums, and what of them came in which bucket (by its first second)."""

    account: Account
    spent_nanousd: int = 0
    attempts: int = 0
    unknown_cost: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    key: str = field(init=False)
    """Where it is counted."""
    _is_by_time: bool = field(init=False)

    def __post_init__(self) -> None:
        budget = self.account.budget
        self.key = self.account.key
        self._is_by_time = budget.is_rolling or not is_by_caller(budget)

    def add(self, at_s: float, *, spent_nanousd: int, attempts: int, unknown_cost: int) -> None:
        """Book attempts of one moment."""
        self.spent_nanousd += spent_nanousd
        self.attempts += attempts
        self.unknown_cost += unknown_cost
        if spent_nanousd and self._is_by_time:
            at = bucket_of(self.account.budget, at_s)
            self.buckets[at] = self.buckets.get(at, 0) + spent_nanousd


def bucket_s(budget: BudgetRecord) -> int:
    """How long the stretches of a budget's accounts are."""
    return ROLLING[budget.period].step_s if budget.is_rolling else BUCKET_S[budget.period]


def bucket_of(budget: BudgetRecord, at_s: float) -> int:
    """The first second of the stretch a moment is in."""
    length = bucket_s(budget)
    return int(at_s // length) * length


def definition_of(budget: BudgetRecord, time_zone: str) -> str:
    """A digest of what decides on which account a request is counted."""
    scopes = [[one.subject.value, one.subject_id] for one in budget.scopes]
    parts: list[object] = [budget.organisation_id, scopes, budget.period.value, time_zone]
    told = json.dumps([*parts, "rolling"] if budget.is_rolling else parts)
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def previous_period(budget: BudgetRecord, zone: tzinfo, current: Period) -> Period:
    """The period before another; of one that rolls, as much time before what counts now."""
    if budget.is_rolling:
        length = ROLLING[budget.period].length_s
        return Period(current.starts_s - length, current.starts_s)
    return period_of(budget.period, zone, current.starts_s - 1)


def spending_of(
    ends: Iterable[End],
    budgets: Mapping[str, Sequence[BudgetRecord]],
    zones: Mapping[str, tzinfo],
) -> tuple[Spending, ...]:
    """What these ends add to the accounts of budgets (by organisation), ordered by account.

    All attempts of a request count; on budgets of models each on that of its own model.
    """
    books = {name: _Book(own, zones[name]) for name, own in budgets.items() if own}
    for end in ends:
        book = books.get(end.origin.organisation_id)
        if book is not None and end.charges:
            book.add(end)
    found = [one for book in books.values() for one in book.accounts()]
    return tuple(sorted(found, key=attrgetter("key")))


class _Book:
    """The accounts of one organisation, as ends are added to them.

    Many ends are of one account and one second, so what takes long is found out once for each.
    """

    def __init__(self, budgets: Sequence[BudgetRecord], zone: tzinfo) -> None:
        self._whole = [one for one in budgets if not is_of_model(one)]
        self._of_models = [one for one in budgets if is_of_model(one)]
        self._zone = zone
        self._periods: dict[tuple[BudgetPeriod, int], Period] = {}
        self._found: dict[tuple[str, Period, tuple[str, ...]], Spending] = {}

    def add(self, end: End) -> None:
        """Book all attempts of a request."""
        requester = _requester(end)
        if self._whole:
            self._book(end, self._whole, requester, end.charges)
        if self._of_models:
            for charge in end.charges:
                who = changed(requester, model_id=charge.model_id)
                self._book(end, self._of_models, who, (charge,))

    def accounts(self) -> Iterable[Spending]:
        return self._found.values()

    def _book(
        self,
        end: End,
        budgets: Sequence[BudgetRecord],
        requester: Requester,
        charges: Sequence[Charge],
    ) -> None:
        at_s, tags = end.received_at_ms / 1000, end.origin.tags
        costs = [one.cost_nanousd for one in charges]
        known = [one for one in costs if one is not None]
        spent, unknown = sum(known), len(costs) - len(known)
        for budget in budgets:
            for subjects in subjects_of(budget, requester, tags):
                self._spending(budget, subjects, at_s).add(
                    at_s, spent_nanousd=spent, attempts=len(costs), unknown_cost=unknown
                )

    def _spending(self, budget: BudgetRecord, subjects: tuple[str, ...], at_s: float) -> Spending:
        period = FOREVER if budget.is_rolling else self._period(budget.period, at_s)
        place = (budget.id, period, subjects)
        spending = self._found.get(place)
        if spending is None:
            spending = self._found[place] = Spending(Account(budget, subjects, period))
        return spending

    def _period(self, period: BudgetPeriod, at_s: float) -> Period:
        """The one a moment is in; they begin with whole seconds."""
        place = (period, int(at_s // 1))
        found = self._periods.get(place)
        if found is None:
            found = self._periods[place] = period_of(period, self._zone, at_s)
        return found


def _requester(end: End) -> Requester:
    origin = end.origin
    return Requester(
        organisation_id=origin.organisation_id,
        team_id=origin.team_id,
        project_id=origin.project_id,
        key_id=origin.key_id,
        end_user=origin.end_user,
        route_id=origin.route_id,
    )

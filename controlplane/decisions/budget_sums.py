"""What the ends of requests add to the accounts of budgets; how finely an account is told by time.

A cost nobody knows is left out of a sum and counted. What callers name as they like is told by
account and not by time: nobody knows how many there are.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from inference.contract.events import Charge, End
from inference.contract.kinds import BudgetPeriod
from inference.contract.snapshot import BudgetRecord
from inference.decisions.admission import Requester
from inference.decisions.budgets import (
    ROLLING,
    Account,
    Period,
    accounts_of,
    is_by_caller,
    is_of_model,
    period_of,
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

    def add(self, at_s: float, *, spent_nanousd: int, attempts: int, unknown_cost: int) -> None:
        """Book attempts of one moment."""
        self.spent_nanousd += spent_nanousd
        self.attempts += attempts
        self.unknown_cost += unknown_cost
        budget = self.account.budget
        if spent_nanousd and (budget.is_rolling or not is_by_caller(budget)):
            at = bucket_of(budget, at_s)
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
    found: dict[str, Spending] = {}
    for end in ends:
        own = budgets.get(end.origin.organisation_id, ())
        if not own or not end.charges:
            continue
        zone = zones[end.origin.organisation_id]
        whole = [one for one in own if not is_of_model(one)]
        _book(found, end, whole, end.charges, model_id=None, zone=zone)
        of_models = [one for one in own if is_of_model(one)]
        for charge in end.charges if of_models else ():
            _book(found, end, of_models, (charge,), model_id=charge.model_id, zone=zone)
    return tuple(found[key] for key in sorted(found))


def _book(
    found: dict[str, Spending],
    end: End,
    budgets: Sequence[BudgetRecord],
    charges: Sequence[Charge],
    *,
    model_id: str | None,
    zone: tzinfo,
) -> None:
    at_s = end.received_at_ms / 1000
    requester = replace(_requester(end), model_id=model_id)
    for account in accounts_of(budgets, requester, end.origin.tags, zone=zone, at_s=at_s):
        found.setdefault(account.key, Spending(account)).add(
            at_s,
            spent_nanousd=sum(one.cost_nanousd or 0 for one in charges),
            attempts=len(charges),
            unknown_cost=sum(one.cost_nanousd is None for one in charges),
        )


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

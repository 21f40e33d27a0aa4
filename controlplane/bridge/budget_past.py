"""What a budget would have done in the periods before the present one, by the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from controlplane.decisions.budget_sums import bucket_s, previous_period
from controlplane.decisions.budgets import Bucket, Past, look_back
from controlplane.models import Budget, BudgetCount
from controlplane.selectors.budgets import list_past
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import Period, amount_at, window_of

MOST_PERIODS = 6
_MOST_ACCOUNTS = 1_000
"""A period is judged by the accounts that spent the most, so many at most."""


@dataclass(frozen=True, slots=True)
class Fired:
    """How many accounts had passed a threshold, and by when the first; None: not told by time."""

    percent: int
    accounts: int
    first_at_s: int | None


@dataclass(frozen=True, slots=True)
class PastPeriod:
    """A period that is over: what its spending means for the amount of now."""

    period: Period
    past: Past
    fired: Sequence[Fired]


def read_past_periods(
    budget: Budget, record: BudgetRecord, zone: tzinfo, count: BudgetCount | None, *, now_s: float
) -> Sequence[PastPeriod]:
    """The last few whole periods, newest first, as far as they were counted from their beginning.

    The amount is that of now, without a raise that ends; a threshold is a share of it.
    """
    if count is None:
        return ()
    counted_from = previous_period(
        record, zone, window_of(record, zone, count.since.timestamp())
    ).starts_s
    found: list[PastPeriod] = []
    amounts = [amount_at(record, now_s)]
    amounts += [record.amount_nanousd * one // 100 for one in budget.thresholds_percent]
    current = window_of(record, zone, now_s)
    while len(found) < MOST_PERIODS:
        current = previous_period(record, zone, current)
        if current.starts_s < counted_from:
            break
        accounts = list_past(budget, current, most=_MOST_ACCOUNTS, least_nanousd=min(amounts))
        found.append(_judged(budget, record, current, accounts, now_s))
    return found


def _judged(
    budget: Budget,
    record: BudgetRecord,
    period: Period,
    accounts: Sequence[tuple[int, Sequence[Bucket]]],
    now_s: float,
) -> PastPeriod:
    length = bucket_s(record)
    past = look_back(accounts, amount_at(record, now_s), length_s=length)
    fired = []
    for percent in budget.thresholds_percent:
        one = look_back(accounts, record.amount_nanousd * percent // 100, length_s=length)
        if one.reached:
            fired.append(Fired(percent, one.reached, one.first_reached_at_s))
    return PastPeriod(period, past, fired)

"""The budgets that bear on requests of one kind, and the counters they are kept by."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from inference.contract.kinds import BudgetAction
from inference.contract.snapshot import BudgetRecord
from inference.decisions.admission import Bounds, Requester
from inference.decisions.budgets import (
    ROLLING,
    Account,
    account_key,
    accounts_of,
    acts_from,
    amount_at,
    is_by_caller,
    next_change_s,
    stake_of,
    throttle_window,
)
from inference.decisions.rules import zone_of
from inference.limits.slices import Claim, Counter

IsApart = Callable[[Account], bool]
"""Whether an account that callers name as they like is counted by itself."""


@dataclass(frozen=True, slots=True)
class Purse:
    """An account that a request is counted on, and the counter it is kept by.

    `is_shared` says that it is one with others whose names are too many to be counted apart. Once
    `acts_from` is spent, it sends requests to a cheaper model or, by its `throttle`, lets in fewer;
    None is neither.
    """

    account: Account
    counter: Counter
    is_shared: bool = False
    acts_from: int | None = None
    throttle: Claim | None = None

    @property
    def budget(self) -> BudgetRecord:
        return self.account.budget

    @property
    def blocks(self) -> bool:
        """Whether a request that it has no room for is refused."""
        return self.account.budget.action is BudgetAction.BLOCK

    def claim(self, bounds: Bounds) -> Claim | None:
        """What it wants of a request with these bounds; None if it can't let it in at all."""
        stake = stake_of(self.account.budget, bounds.cost_nanousd)
        if stake is None:
            return None
        return Claim(self.counter, stake.floor, stake.take, self.blocks)

    def more(self, nanousd: int) -> Claim:
        """A claim to so much more for a request that was let in."""
        return Claim(self.counter, nanousd, nanousd, True)


def purses_of(
    budgets: Iterable[BudgetRecord],
    requester: Requester,
    tags: Sequence[str],
    *,
    time_zone: str,
    at_s: float,
    is_apart: IsApart,
) -> list[Purse]:
    """Those of all accounts that a request which came at this time is counted on."""
    accounts = accounts_of(budgets, requester, tags, zone=zone_of(time_zone), at_s=at_s)
    purses: list[Purse] = []
    for account in accounts:
        is_shared = is_by_caller(account.budget) and not is_apart(account)
        purses.append(purse_of(account, requester.key_id if is_shared else "", at_s))
    return purses


def from_s(purses: Iterable[Purse]) -> float:
    """Since when they are these: then the last of their periods began."""
    return max((float(one.account.period.starts_s) for one in purses), default=-math.inf)


def until_s(purses: Iterable[Purse], at_s: float) -> float:
    """Until when they are these: then a period ends, or a raise of an amount does."""
    return min((next_change_s(one.account, at_s) for one in purses), default=math.inf)


def purse_of(account: Account, shared_by: str, at_s: float) -> Purse:
    """An account at a moment; `shared_by` is the key whose others it counts too, "" if none."""
    budget = account.budget
    rolling = ROLLING[budget.period] if budget.is_rolling else None
    counter = Counter(
        key=account_key(account, shared_by=shared_by),
        organisation_id=budget.organisation_id,
        window_ms=0,
        amount=amount_at(budget, at_s),
        is_refundable=budget.action is BudgetAction.BLOCK,
        ends_ms=account.period.ends_s * 1000,
        step_ms=rolling.step_s * 1000 if rolling else 0,
        steps=rolling.steps if rolling else 0,
    )
    throttle = _throttle(account, shared_by) if budget.action is BudgetAction.THROTTLE else None
    return Purse(account, counter, bool(shared_by), acts_from(budget, at_s), throttle)


def _throttle(account: Account, shared_by: str) -> Claim:
    """One of the places there are in a minute."""
    window_ms, places = throttle_window(account.budget.throttle_per_minute)
    counter = Counter(
        key=account_key(account, shared_by=shared_by, is_throttle=True),
        organisation_id=account.budget.organisation_id,
        window_ms=window_ms,
        amount=places,
        is_refundable=False,
    )
    return Claim(counter, 1, 1, is_strict=False)

"""Which accounts are to be warned of where people work with what they count for, and how."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.decisions.budgets import Balance, BudgetState
from inference.contract.kinds import BudgetAction
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import acts_from, dollars

WARNS_AT_PERCENT = 80
"""So much of a budget is spent before pages of what it counts for warn of it."""


@dataclass(frozen=True, slots=True)
class BudgetWarning:
    """An account that is nearly or wholly used up, as pages of those it counts for tell it.

    `balance` is None to readers who may not know what is spent. `ends_at` is when it starts anew,
    or, of one that rolls, when something of it gives way next.
    """

    budget_id: str
    name: str
    owner: str
    about: str
    state: BudgetState
    is_acting: bool
    action: BudgetAction
    throttle_per_minute: int
    is_rolling: bool
    ends_at: datetime
    balance: Balance | None

    @property
    def is_grave(self) -> bool:
        """Whether requests are refused by it."""
        return self.state is BudgetState.BLOCKED


def is_acting(record: BudgetRecord, balance: Balance, now_s: float) -> bool:
    """Whether it slows requests down, or sends them to a cheaper model."""
    begins = acts_from(record, now_s)
    return begins is not None and balance.spent_nanousd >= begins


def warns(balance: Balance, *, acting: bool) -> bool:
    """Whether people are to be warned of an account."""
    is_near = balance.used_percent is None or balance.used_percent >= WARNS_AT_PERCENT
    is_over = balance.state in (BudgetState.BLOCKED, BudgetState.OVER)
    return acting or is_over or (is_near and balance.state is not BudgetState.OFF)


def warning_words(one: BudgetWarning, until: str) -> str:
    """What it does to requests, in a sentence; `until` is its end in words."""
    told = f"Budget {one.name} ({one.about})"
    spent = ""
    if one.balance is not None:
        spent = f": {dollars(one.balance.spent_nanousd)} of {dollars(one.balance.amount_nanousd)}"
    rest = f"until enough of it gives way, from {until} on" if one.is_rolling else f"until {until}"
    if one.is_grave:
        return f"{told} is used up{spent}. Requests that cost anything are refused {rest}."
    if one.is_acting and one.action is BudgetAction.THROTTLE:
        rate = f"{one.throttle_per_minute} requests a minute are let in and others wait"
        return f"{told} is nearly or wholly used up{spent}. {rate.capitalize()}, {rest}."
    if one.is_acting:
        words = "Requests go to a cheaper model"
        return f"{told} is nearly or wholly used up{spent}. {words}, {rest}."
    if one.state is BudgetState.OVER:
        return f"{told} is used up{spent}. Every request is still served."
    then = _THEN[one.action]
    return f"{told} is nearly used up{spent}. {then}"


_THEN = {
    BudgetAction.BLOCK: "Once it is, requests that cost anything are refused.",
    BudgetAction.THROTTLE: "Requests will be slowed down.",
    BudgetAction.CHEAPER: "Requests will go to a cheaper model.",
    BudgetAction.NOTIFY: "Every request will still be served.",
}


def advice_words(one: BudgetWarning, *, may_raise: bool) -> str:
    """What the reader can do about it."""
    if may_raise:
        return "Raise it for a time, or edit its amount, on its page."
    if one.owner:
        return f"Ask {one.owner}, who answers for it, for more."
    return "Ask whoever has the role finance or administrator for more."

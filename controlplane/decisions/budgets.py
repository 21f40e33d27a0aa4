"""What a budget is about, in words; how it stands; where it is going; what it would have done."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.decisions.budget_effects import REFUSING_S
from controlplane.decisions.subjects import WHOLE, kind_words
from inference.contract.kinds import (
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    TooLong,
    UnknownPrice,
)
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import Period, amount_at, dollars

_PERIODS = {
    BudgetPeriod.HOUR: "an hour",
    BudgetPeriod.DAY: "a day",
    BudgetPeriod.WEEK: "a week",
    BudgetPeriod.MONTH: "a month",
    BudgetPeriod.QUARTER: "a quarter",
}
_ROLLING = {
    BudgetPeriod.HOUR: "in any 60 minutes",
    BudgetPeriod.DAY: "in any 24 hours",
    BudgetPeriod.WEEK: "in any 7 days",
    BudgetPeriod.MONTH: "in any 30 days",
    BudgetPeriod.QUARTER: "in any 90 days",
}
STRETCH_S: Mapping[BudgetPeriod, int] = {
    BudgetPeriod.HOUR: 300,
    BudgetPeriod.DAY: 3_600,
    BudgetPeriod.WEEK: 21_600,
    BudgetPeriod.MONTH: 86_400,
    BudgetPeriod.QUARTER: 259_200,
}
"""What a forecast compares: stretches that are alike, some ten to thirty of them a period."""

FEWEST_STRETCHES = 4
"""Fewer tell nothing of how much they differ."""

Z80 = 1.2816
"""Four fifths of a normal distribution lie within so many standard deviations."""


class BudgetState(StrEnum):
    """How an account stands."""

    OFF = "off"
    OK = "ok"
    REFUSING = "refusing"
    THRESHOLD = "threshold"
    OVER = "over"
    BLOCKED = "blocked"


def period_words(period: str, *, is_rolling: bool = False) -> str:
    """`a month`, `in any 30 days`."""
    return (_ROLLING if is_rolling else _PERIODS)[BudgetPeriod(period)]


def each_of(scopes: Sequence[Mapping[str, str | None]]) -> bool:
    """Whether it counts several apart."""
    return any(
        one["subject_id"] is None and one["subject"] != BudgetSubject.ORGANISATION for one in scopes
    )


def scopes_words(
    scopes: Sequence[Mapping[str, str | None]], names: Mapping[str, str] | None = None
) -> str:
    """`team Support and each end user`; those nobody can name go by their ids."""
    words = [
        _scope_words(str(one["subject"]), one["subject_id"], names or {})
        for one in scopes
        if len(scopes) == 1 or one["subject"] != BudgetSubject.ORGANISATION
    ]
    return " and ".join(words)


def _scope_words(subject: str, subject_id: str | None, names: Mapping[str, str]) -> str:
    if subject == BudgetSubject.ORGANISATION:
        return WHOLE
    if subject_id is None:
        return f"each {kind_words(subject)}"
    return f"{kind_words(subject)} {names.get(subject_id, subject_id)}"


def budget_words(amount_nanousd: int, period: str, about: str, *, is_rolling: bool = False) -> str:
    """`$9000.00 a month for team Support`."""
    told = period_words(period, is_rolling=is_rolling)
    return f"{dollars(amount_nanousd)} {told} for {about}"


def action_words(budget: BudgetRecord, cheaper_name: str | None = None) -> str:
    """What it does to requests, in a sentence or two."""
    if budget.action is BudgetAction.NOTIFY:
        return "Tells only: every request is served."
    since = f"Once {budget.acts_at_percent} % of it are spent, "
    if budget.action is BudgetAction.THROTTLE:
        return f"{since}{budget.throttle_per_minute} requests a minute are let in; others wait."
    if budget.action is BudgetAction.CHEAPER:
        model = cheaper_name or budget.cheaper_model_id
        own = f"model {model}, or else " if model else ""
        return f"{since}requests go to {own}the cheapest model of their route."
    return f"{_refuses(budget)} {_UNKNOWN[budget.unknown_price]}"


def _refuses(budget: BudgetRecord) -> str:
    more = [f"{budget.grace_percent} %"] if budget.grace_percent else []
    more += [dollars(budget.grace_nanousd)] if budget.grace_nanousd else []
    grace = f" once {' and '.join(more)} more than that are used up" if more else ""
    if budget.too_long is TooLong.LOWER:
        return f"Shortens answers to what is left buys, and refuses what isn't left for{grace}."
    return f"Refuses requests that may cost more than is left{grace}."


_UNKNOWN: Mapping[UnknownPrice, str] = {
    UnknownPrice.REFUSE: "Refuses what nobody knows the price of.",
    UnknownPrice.ALLOW: "Serves what nobody knows the price of, uncounted.",
}


@dataclass(frozen=True, slots=True)
class Balance:
    """One account at one moment. `reserved_nanousd` None is not known: the store was not asked.

    `amount_nanousd` is what may be spent, raised and with its grace; `used_percent` is of the
    amount without grace, and None where that is 0. `threshold_percent` is the highest passed.
    """

    amount_nanousd: int
    spent_nanousd: int
    reserved_nanousd: int | None
    left_nanousd: int
    used_percent: float | None
    threshold_percent: int | None
    state: BudgetState


def balance_of(
    budget: BudgetRecord,
    thresholds_percent: Sequence[int],
    *,
    spent_nanousd: int,
    reserved_nanousd: int | None,
    now_s: float,
) -> Balance:
    """How an account stands."""
    amount, plain = amount_at(budget, now_s), plain_amount(budget, now_s)
    held = spent_nanousd + (reserved_nanousd or 0)
    passed = [one for one in thresholds_percent if 100 * spent_nanousd >= one * plain]
    return Balance(
        amount_nanousd=amount,
        spent_nanousd=spent_nanousd,
        reserved_nanousd=reserved_nanousd,
        left_nanousd=max(amount - held, 0),
        used_percent=100 * spent_nanousd / plain if plain else None,
        threshold_percent=max(passed, default=None) if spent_nanousd else None,
        state=_state(budget, amount, held, is_past=bool(passed and spent_nanousd)),
    )


def plain_amount(budget: BudgetRecord, now_s: float) -> int:
    """What may be spent now, raised but without grace."""
    is_raised = budget.raised_to_nanousd is not None and now_s < (budget.raised_until or 0.0)
    return (
        max(budget.raised_to_nanousd or 0, budget.amount_nanousd)
        if is_raised
        else (budget.amount_nanousd)
    )


def _state(budget: BudgetRecord, amount: int, held: int, *, is_past: bool) -> BudgetState:
    if not budget.is_enabled:
        return BudgetState.OFF
    if held >= amount and (held or amount == 0):
        blocks = budget.action is BudgetAction.BLOCK
        return BudgetState.BLOCKED if blocks else BudgetState.OVER
    return BudgetState.THRESHOLD if is_past else BudgetState.OK


def state_with(balance: Balance, *, refused_s_ago: float | None) -> BudgetState:
    """How it stands, with what it did of late: too little may be left for what is asked of it.

    What is used up says more than that it refuses.
    """
    is_refusing = refused_s_ago is not None and refused_s_ago < REFUSING_S
    if is_refusing and balance.state in (BudgetState.OK, BudgetState.THRESHOLD):
        return BudgetState.REFUSING
    return balance.state


Bucket = tuple[int, int]
"""First second of a stretch, and what was spent in it."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A straight line from the period's beginning through now, and where it ends.

    The interval holds four fifths of the outcomes if what is to come is like what was; None while
    too little of the period is over. `reached_at_s` is when the line meets the amount, None if it
    doesn't within the period.
    """

    at_end_nanousd: int
    low_nanousd: int | None
    high_nanousd: int | None
    reached_at_s: int | None


def forecast_of(
    kind: BudgetPeriod,
    period: Period,
    buckets: Sequence[Bucket],
    *,
    spent_nanousd: int,
    amount_nanousd: int,
    now_s: float,
) -> Forecast | None:
    """Where spending goes at its pace so far; None at the very beginning of a period.

    Without buckets there is no interval: nobody knows how even it was.
    """
    elapsed = min(now_s, period.ends_s) - period.starts_s
    if elapsed <= 0:
        return None
    spent = spent_nanousd
    left_s = period.ends_s - period.starts_s - elapsed
    to_come = spent * left_s / elapsed
    spread = _spread(STRETCH_S[kind], period, buckets, elapsed=elapsed, left_s=left_s)
    within = None if spread is None else Z80 * spread
    return Forecast(
        at_end_nanousd=spent + round(to_come),
        low_nanousd=None if within is None else spent + max(round(to_come - within), 0),
        high_nanousd=None if within is None else spent + round(to_come + within),
        reached_at_s=_reached_at(period, spent, amount_nanousd, elapsed=elapsed),
    )


def _spread(
    length: int, period: Period, buckets: Sequence[Bucket], *, elapsed: float, left_s: float
) -> float | None:
    """The standard deviation of what is to come: the stretches' own, and that of their mean."""
    whole = int(elapsed // length)
    if whole < FEWEST_STRETCHES or not buckets:
        return None
    sums = [0] * whole
    for at, amount in buckets:
        place = max(at - period.starts_s, 0) // length
        if place < whole:
            sums[place] += amount
    mean = sum(sums) / whole
    variance = sum((one - mean) ** 2 for one in sums) / (whole - 1)
    rest = left_s / length
    return math.sqrt(variance * (rest + rest * rest / whole))


def _reached_at(period: Period, spent: int, amount: int, *, elapsed: float) -> int | None:
    if spent <= 0:
        return None
    at = period.starts_s + elapsed * amount / spent
    return math.ceil(at) if at <= period.ends_s else None


def reached_at(buckets: Sequence[Bucket], amount_nanousd: int, *, length_s: int) -> int | None:
    """By when an account had spent an amount: the end of the stretch in which it did."""
    total = 0
    for at, amount in sorted(buckets):
        total += amount
        if total >= amount_nanousd:
            return at + length_s
    return None


@dataclass(frozen=True, slots=True)
class Past:
    """What a period that is over says of a budget: who would have reached it, and when first."""

    accounts: int
    reached: int
    first_reached_at_s: int | None
    spent_nanousd: int
    most_nanousd: int


def look_back(
    accounts: Sequence[tuple[int, Sequence[Bucket]]], amount_nanousd: int, *, length_s: int
) -> Past:
    """Judge a period by what each account spent in it, in all and by stretch."""
    reached = [one for one in accounts if one[0] >= amount_nanousd and one[0]]
    times = [reached_at(buckets, amount_nanousd, length_s=length_s) for _, buckets in reached]
    return Past(
        accounts=len(accounts),
        reached=len(reached),
        first_reached_at_s=min((one for one in times if one is not None), default=None),
        spent_nanousd=sum(spent for spent, _ in accounts),
        most_nanousd=max((spent for spent, _ in accounts), default=0),
    )

"""What pages say of a budget: its state, its bar, its figures, and what would have been."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.bridge.budget_past import PastPeriod
from controlplane.bridge.budget_status import AccountStatus, Status, Subject
from controlplane.console.details import Fact, State
from controlplane.console.formats import UNKNOWN, about_dollars, count, dollars, minute, percentage
from controlplane.decisions.budget_effects import Effect
from controlplane.decisions.budget_forecasts import ahead_words
from controlplane.decisions.budget_proofs import ProofState
from controlplane.decisions.budgets import Balance, BudgetState, Past, period_words, scopes_words
from controlplane.decisions.subjects import WHOLE, kind_words
from controlplane.models import Budget
from controlplane.selectors.budget_effects import EffectTold
from inference.contract.kinds import BudgetAction, BudgetSubject
from inference.decisions.budgets import ROLLING, Period

_STATES: Mapping[BudgetState, State] = {
    BudgetState.OFF: State("Off", "pause", "idle"),
    BudgetState.OK: State("Ok", "ok", "ok"),
    BudgetState.REFUSING: State("Refusing", "warn", "warn"),
    BudgetState.OVER: State("Over budget", "warn", "warn"),
    BudgetState.BLOCKED: State("Blocked", "crit", "crit"),
}
_TONES = {BudgetState.THRESHOLD: "w", BudgetState.OVER: "w", BudgetState.BLOCKED: "c"}


PROOF_STATES: Mapping[ProofState, tuple[str, str]] = {
    ProofState.OK: ("ok", "Proved"),
    ProofState.WARN: ("warn", "Look at it"),
    ProofState.FAILED: ("crit", "Failed"),
}
"""Of a step of a test: tone and icon, and a word."""


def state_of(budget: Budget, balance: Balance | None, state: BudgetState | None = None) -> State:
    """How it stands, by its balance unless a state says more; on or off is all there is to say to
    who may not know what was spent.
    """
    if balance is None:
        return State("On", "ok", "ok") if budget.is_enabled else _STATES[BudgetState.OFF]
    told = state or balance.state
    if told is BudgetState.THRESHOLD:
        return State(f"Over {balance.threshold_percent} %", "warn", "warn")
    return _STATES[told]


def effects_words(effects: Mapping[Effect, EffectTold], zone: ZoneInfo) -> str:
    """What a budget did in its present period; "" if nothing."""
    told = [
        f"{_EFFECTS[one]} {count(effects[one].requests)}, last at "
        f"{minute(effects[one].last_at, zone)}"
        for one in Effect
        if one in effects
    ]
    return "; ".join(told)


_EFFECTS: Mapping[Effect, str] = {
    Effect.REFUSED: "refused",
    Effect.THROTTLED: "slowed down",
    Effect.CHEAPER: "sent to a cheaper model",
    Effect.LOWERED: "shortened answers of",
}


def meter(balance: Balance) -> SafeString:
    """A bar of what is spent, and behind it what is held for requests under way."""
    whole = max(balance.amount_nanousd, 1)
    spent = min(100 * balance.spent_nanousd / whole, 100)
    held = min(spent + 100 * (balance.reserved_nanousd or 0) / whole, 100)
    return format_html(
        '<svg class="meter" aria-hidden="true"><rect class="t" width="100%" height="6" rx="3"/>'
        '<rect class="h" width="{}%" height="6" rx="3"/>'
        '<rect class="f {}" width="{}%" height="6" rx="3"/></svg>',
        f"{held:.2f}",
        _TONES.get(balance.state, ""),
        f"{spent:.2f}",
    )


def subjects_words(subjects: Sequence[Subject]) -> str:
    """Whom an account counts for."""
    told = [
        WHOLE
        if one.subject == BudgetSubject.ORGANISATION
        else f"{kind_words(one.subject)} {one.name or one.id}"
        for one in subjects
    ]
    rest = [one for one in told if one != WHOLE]
    return " and ".join(rest or told)


def figures_of(status: Status, zone: ZoneInfo, now: datetime) -> Sequence[Fact]:
    """The strip above the panels: of the only account, or of the one that spent the most."""
    first = status.accounts[0] if status.accounts else None
    ends = f"starts anew {minute(_moment(status.period.ends_s), zone)}"
    if status.record.is_rolling:
        ends = period_words(status.record.period, is_rolling=True)
    budget = Fact("Budget", dollars(status.plain_amount_nanousd), unit=ends)
    if first is None:
        return (budget, Fact("Spent", UNKNOWN, unit="nothing yet, or not yours to know"))
    balance = first.balance
    held = (
        "the store does not answer"
        if balance.reserved_nanousd is None
        else f"{dollars(balance.reserved_nanousd)} held for requests under way"
    )
    most = " the most" if status.is_each else ""
    is_rolling = status.record.is_rolling
    unit = "within it" if is_rolling else _unknown_words(first)
    facts = (
        Fact(f"Spent{most}", dollars(balance.spent_nanousd), unit=unit),
        budget,
        Fact("Used", percentage(balance.used_percent), unit=_passed_words(status, zone, now)),
        Fact("Left", dollars(balance.left_nanousd), unit=held),
    )
    label, place = "Forecast", "this period"
    if is_rolling:
        ahead = ahead_words(ROLLING[status.record.period])
        label, place = f"Forecast, in {ahead}", f"the next {ahead}"
    return (*facts, _forecast_fact(first, label), _reach_fact(first, zone, place))


def _unknown_words(account: AccountStatus) -> str:
    if account.unknown_cost:
        return f"and {count(account.unknown_cost)} of {count(account.attempts)} of unknown cost"
    return f"in {count(account.attempts)} attempts" if account.attempts else "nothing yet"


def _passed_words(status: Status, zone: ZoneInfo, now: datetime) -> str:
    if status.record.is_rolling:
        return f"gives way next {minute(_moment(status.period.ends_s), zone)}"
    length = status.period.ends_s - status.period.starts_s
    passed = now.timestamp() - status.period.starts_s
    return f"{100 * min(max(passed / length, 0), 1):.0f} % of the time passed"


def _forecast_fact(account: AccountStatus, label: str) -> Fact:
    forecast = account.forecast
    if forecast is None:
        return Fact(label, UNKNOWN, unit="too early")
    if forecast.low_nanousd is None or forecast.high_nanousd is None:
        return Fact(label, about_dollars(forecast.at_end_nanousd), unit="at this pace")
    low, high = about_dollars(forecast.low_nanousd), about_dollars(forecast.high_nanousd)
    words = f"80 %: {low} to {high}"
    return Fact(label, about_dollars(forecast.at_end_nanousd), unit=words)


def _reach_fact(account: AccountStatus, zone: ZoneInfo, place: str) -> Fact:
    if account.balance.state in (BudgetState.BLOCKED, BudgetState.OVER):
        return Fact("Used up", "now")
    if account.forecast is None:
        return Fact("Used up", UNKNOWN, unit="too early")
    if account.forecast.reached_at_s is None:
        return Fact("Used up", f"not in {place}", unit="at this pace")
    at = minute(_moment(account.forecast.reached_at_s), zone)
    return Fact("Used up", at, unit="at this pace")


def past_words(past: Past | None, period: Period, action: str, zone: ZoneInfo) -> str:
    """What the last whole period would have meant, in a sentence."""
    begin, end = (minute(_moment(one), zone) for one in (period.starts_s, period.ends_s))
    span = f"the last whole period ({begin} to {end})"
    if past is None:
        return f"The ledger has too much of {span} to be read while this page waits."
    if not past.accounts:
        return f"Nothing of it was in the ledger in {span}."
    verb = "blocked" if action == BudgetAction.BLOCK else "been passed"
    if not past.reached:
        return (
            f"In {span} it would not have {verb}: at most {dollars(past.most_nanousd)} was spent."
        )
    when = ""
    if past.first_reached_at_s is not None:
        when = f", first by {minute(_moment(past.first_reached_at_s), zone)}"
    if past.accounts == 1:
        return f"In {span} it would have {verb}{when}: {dollars(past.most_nanousd)} was spent."
    return (
        f"In {span} it would have {verb} for {count(past.reached)} of {count(past.accounts)}{when}."
    )


@dataclass(frozen=True, slots=True)
class PastLine:
    """One period that is over, in the table of what would have been."""

    span: str
    most: str
    used: str
    fired: str
    verdict: str
    tone: str


def past_lines(past: Sequence[PastPeriod], budget: Budget, zone: ZoneInfo) -> Sequence[PastLine]:
    """The last whole periods, newest first."""
    return [_past_line(one, budget, zone) for one in past]


def _past_line(one: PastPeriod, budget: Budget, zone: ZoneInfo) -> PastLine:
    begin, end = (minute(_moment(at), zone) for at in (one.period.starts_s, one.period.ends_s))
    amount, past = budget.amount_nanousd, one.past
    fired = ", ".join(f"{each.percent} %{_by(each.first_at_s, zone)}" for each in one.fired)
    verdict = "no"
    if past.reached:
        many = f"{count(past.reached)} of {count(past.accounts)}"
        verdict = "yes" if past.accounts == 1 else many
        verdict += _by(past.first_reached_at_s, zone)
    return PastLine(
        span=f"{begin} to {end}",
        most=dollars(past.most_nanousd),
        used=percentage(100 * past.most_nanousd / amount if amount else None),
        fired=fired or "none",
        verdict=verdict,
        tone="warn" if past.reached else "ok",
    )


def _by(at_s: int | None, zone: ZoneInfo) -> str:
    return "" if at_s is None else f" by {minute(_moment(at_s), zone)}"


def what_counts(budget: Budget, names: Mapping[str, str]) -> str:
    """Which requests are counted, in a sentence."""
    about = scopes_words(budget.scopes, names)
    apart = " Each of them is counted apart." if "each " in about else ""
    return (
        f"All attempts of requests of {about}, by the time at which the request came, at what is "
        f"booked in the ledger.{apart}"
    )


@dataclass(frozen=True, slots=True)
class AccountLine:
    """One account in the table of those that spent the most."""

    words: str
    url: str
    bar: SafeString
    spent: str
    held: str
    left: str
    used: str
    state: State
    note: str


def account_line(budget: Budget, account: AccountStatus, url: str) -> AccountLine:
    """An account in words."""
    balance = account.balance
    held = balance.reserved_nanousd
    return AccountLine(
        words=subjects_words(account.subjects),
        url=url,
        bar=meter(balance),
        spent=dollars(balance.spent_nanousd),
        held=UNKNOWN if held is None else dollars(held),
        left=dollars(balance.left_nanousd),
        used=percentage(balance.used_percent),
        state=state_of(budget, balance),
        note=f"{count(account.unknown_cost)} of unknown cost" if account.unknown_cost else "",
    )


def late_words(accounts: Sequence[AccountStatus]) -> str:
    """Of what went past the amount because its gateway had been taken for dead; "" is nothing."""
    past = [one.late_past_nanousd for one in accounts if one.late_past_nanousd]
    if not past:
        return ""
    whose = f" of {count(len(past))} of those below" if len(accounts) > 1 else ""
    return (
        f"Gateway processes that had been taken for dead came back with requests under way: up to"
        f" {dollars(sum(past))}{whose} went past the amount, which others had been given meanwhile."
    )


def _moment(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)

"""Which budgets bear on a request, over what time they count, what each wants of it, what it cost.

A budget that names nobody counts each of its kind apart, so what is counted is a budget together
with those it counts for and one of its periods: an `Account`. Admission reserves the most a request
may cost, and its end books what it did cost, in the period in which the request came.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import blake2b
from itertools import product

from inference.contract.events import Charge
from inference.contract.kinds import BudgetAction, BudgetPeriod, BudgetSubject, UnknownPrice
from inference.contract.snapshot import BudgetRecord
from inference.contract.values import frozen
from inference.contract.wire import limits_counter_key
from inference.decisions.admission import Requester, Stake

BudgetIndex = Mapping[str, Sequence[BudgetRecord]]
"""Enabled budgets by organisation."""


@frozen
class Period:
    """From one moment to another, in seconds since the epoch, the end excluded."""

    starts_s: int
    ends_s: int


FOREVER = Period(0, 4_102_444_800)
"""The period of accounts that roll: what they count leaves it bit by bit, and it has no end."""


@frozen
class Rolling:
    """How a rolling period moves on: what was spent leaves it in steps, once it is that old.

    The step that has begun counts besides, so no stretch of the length ever has more.
    """

    length_s: int
    step_s: int

    @property
    def steps(self) -> int:
        return self.length_s // self.step_s

    def window(self, at_s: float) -> Period:
        """What counts at a moment, up to the end of the step it is in."""
        begun = int(at_s // self.step_s) * self.step_s
        return Period(begun - self.length_s, begun + self.step_s)


_DAY_S = 86_400
ROLLING: Mapping[BudgetPeriod, Rolling] = {
    BudgetPeriod.HOUR: Rolling(3_600, 60),
    BudgetPeriod.DAY: Rolling(_DAY_S, 1_800),
    BudgetPeriod.WEEK: Rolling(7 * _DAY_S, 14_400),
    BudgetPeriod.MONTH: Rolling(30 * _DAY_S, 43_200),
    BudgetPeriod.QUARTER: Rolling(90 * _DAY_S, _DAY_S),
}


@frozen
class Account:
    """What a budget counts for these subjects, one for each of its scopes, in one period."""

    budget: BudgetRecord
    subjects: tuple[str, ...]
    period: Period

    @property
    def key(self) -> str:
        """Where it is counted."""
        return account_key(self)


def period_of(period: BudgetPeriod, zone: tzinfo, at_s: float) -> Period:
    """The one a moment is in, on the wall clock of a zone.

    Hours are those of UTC's clock: an hour that the wall clock has twice is two, one that it skips
    is none, and where the offset is no whole hour they begin off the full one.
    """
    if period is BudgetPeriod.HOUR:
        start = int(at_s // 3600) * 3600
        return Period(start, start + 3600)
    day = datetime.fromtimestamp(at_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    first = _FIRST_DAY[period](day)
    return Period(_moment(first), _moment(_NEXT[period](first)))


def _moment(midnight: datetime) -> int:
    """The first moment of a day; where clocks skip midnight, or have it twice, it is that one."""
    return int(midnight.replace(fold=0).timestamp())


def _month_after(day: datetime, months: int) -> datetime:
    month = day.month - 1 + months
    return day.replace(year=day.year + month // 12, month=month % 12 + 1, day=1)


_FIRST_DAY: Mapping[BudgetPeriod, Callable[[datetime], datetime]] = {
    BudgetPeriod.DAY: lambda day: day,
    BudgetPeriod.WEEK: lambda day: day - timedelta(days=day.weekday()),
    BudgetPeriod.MONTH: lambda day: day.replace(day=1),
    BudgetPeriod.QUARTER: lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
}
_NEXT: Mapping[BudgetPeriod, Callable[[datetime], datetime]] = {
    BudgetPeriod.DAY: lambda day: day + timedelta(days=1),
    BudgetPeriod.WEEK: lambda day: day + timedelta(days=7),
    BudgetPeriod.MONTH: lambda day: _month_after(day, 1),
    BudgetPeriod.QUARTER: lambda day: _month_after(day, 3),
}


def index_budgets(budgets: Mapping[str, BudgetRecord]) -> BudgetIndex:
    """Enabled budgets, to be looked up by their organisation."""
    index: dict[str, list[BudgetRecord]] = {}
    for budget in sorted(budgets.values(), key=lambda one: one.id):
        if budget.is_enabled:
            index.setdefault(budget.organisation_id, []).append(budget)
    return index


def accounts_of(
    budgets: Iterable[BudgetRecord],
    requester: Requester,
    tags: Sequence[str],
    *,
    zone: tzinfo,
    at_s: float,
) -> tuple[Account, ...]:
    """All that a request that came at this time is counted on.

    Those of a model are left out while the requester's is not known. A request with several tags is
    counted on each.
    """
    found: list[Account] = []
    for budget in budgets:
        counted = subjects_of(budget, requester, tags)
        if counted:
            period = FOREVER if budget.is_rolling else period_of(budget.period, zone, at_s)
            found += [Account(budget, subjects, period) for subjects in counted]
    return tuple(found)


def subjects_of(
    budget: BudgetRecord, requester: Requester, tags: Sequence[str]
) -> Sequence[tuple[str, ...]]:
    """For whom a budget counts a request, one of each scope; nothing if it doesn't bear on it."""
    choices = [_subjects(one.subject, one.subject_id, requester, tags) for one in budget.scopes]
    return tuple(product(*choices)) if all(choices) else ()


def account_key(account: Account, *, shared_by: str = "", is_throttle: bool = False) -> str:
    """Where an account is counted; what callers write is in it as a hash, the amount is no part.

    Those of a key that are too many to be counted apart have one together, `shared_by` the key.
    `is_throttle` is where requests are counted that it slows down.
    """
    budget, period = account.budget, account.period
    subjects = (shared_by,) if shared_by else account.subjects
    raw = "\0".join((budget.id, str(period.starts_s), *subjects)).encode(errors="surrogatepass")
    sort = b"budget shared" if shared_by else b"budget"
    if is_throttle:
        sort = b"throttle shared" if shared_by else b"throttle"
    digest = blake2b(raw, digest_size=16, person=sort).hexdigest()
    return limits_counter_key(budget.organisation_id, digest)


def window_of(budget: BudgetRecord, zone: tzinfo, at_s: float) -> Period:
    """What a budget counts at a moment: its period, or what has not left it yet if it rolls."""
    if budget.is_rolling:
        return ROLLING[budget.period].window(at_s)
    return period_of(budget.period, zone, at_s)


def gives_way_s(account: Account, at_s: float) -> float:
    """When more may be left than now: its period is over then, or what is oldest leaves it."""
    if account.budget.is_rolling:
        return ROLLING[account.budget.period].window(at_s).ends_s
    return account.period.ends_s


def next_change_s(account: Account, at_s: float) -> float:
    """When its period ends or, before that, a raise of its amount."""
    raised_until = account.budget.raised_until
    if raised_until is not None and at_s < raised_until:
        return min(raised_until, account.period.ends_s)
    return account.period.ends_s


def is_of_model(budget: BudgetRecord) -> bool:
    """Whether it takes knowing the model to tell if it bears on a request."""
    return any(one.subject is BudgetSubject.MODEL for one in budget.scopes)


def is_by_caller(budget: BudgetRecord) -> bool:
    """Whether it counts apart what callers name as they like: nobody knows how many there are."""
    return any(
        one.subject in (BudgetSubject.END_USER, BudgetSubject.TAG) and one.subject_id is None
        for one in budget.scopes
    )


def _subjects(
    subject: BudgetSubject, wanted: str | None, requester: Requester, tags: Sequence[str]
) -> Sequence[str]:
    """Those of a request that a scope is about."""
    if subject is BudgetSubject.TAG:
        return [tag for tag in tags if wanted in (None, tag)]
    own = _OWN[subject](requester)
    return () if own is None or wanted not in (None, own) else (own,)


_OWN: Mapping[BudgetSubject, Callable[[Requester], str | None]] = {
    BudgetSubject.ORGANISATION: lambda who: who.organisation_id,
    BudgetSubject.TEAM: lambda who: who.team_id or None,
    BudgetSubject.PROJECT: lambda who: who.project_id or None,
    BudgetSubject.KEY: lambda who: who.key_id or None,
    BudgetSubject.END_USER: lambda who: who.end_user,
    BudgetSubject.MODEL: lambda who: who.model_id,
    BudgetSubject.ROUTE: lambda who: who.route_id,
}


def amount_at(budget: BudgetRecord, now_s: float) -> int:
    """What may be spent in the period of this moment: raised for a time, and with its grace."""
    amount = budget.amount_nanousd
    if budget.raised_to_nanousd is not None and now_s < (budget.raised_until or 0.0):
        amount = max(budget.raised_to_nanousd, amount)
    if budget.action is BudgetAction.BLOCK:
        amount += amount * budget.grace_percent // 100 + budget.grace_nanousd
    return amount


def acts_from(budget: BudgetRecord, now_s: float) -> int | None:
    """What has to be spent before it throttles or takes the cheaper; None of one that doesn't."""
    if budget.action not in (BudgetAction.THROTTLE, BudgetAction.CHEAPER):
        return None
    return -(-amount_at(budget, now_s) * budget.acts_at_percent // 100)


def throttle_window(per_minute: int) -> tuple[int, int]:
    """A window in milliseconds and how many requests it lets in: evenly spread over a minute.

    Shorter ones than a quarter of a second would have those who wait ask the store all the time.
    """
    each = max(per_minute // 240, 1)
    return max(60_000 * each // per_minute, 1), each


def stake_of(budget: BudgetRecord, cost_max_nanousd: int | None) -> Stake | None:
    """What must be left, and what is reserved; None if it can't let the request in at all.

    One that doesn't block asks for nothing and counts in the end. A request that costs nothing
    passes a budget that is used up.
    """
    if budget.action is not BudgetAction.BLOCK:
        return Stake(0, 0)
    if cost_max_nanousd is None:
        return None if budget.unknown_price is UnknownPrice.REFUSE else Stake(0, 0)
    return Stake(cost_max_nanousd, cost_max_nanousd)


def spent_nanousd(charges: Iterable[Charge]) -> int:
    """What a request is booked with: the lower bounds of its charges; an unknown adds nothing."""
    return sum(one.cost_nanousd or 0 for one in charges)


def refusal_words(
    account: Account, cost_max_nanousd: int | None, *, now_s: float, is_held: bool = False
) -> str:
    """What the caller of a refused request is told; `is_held`: it may fit once others end."""
    budget = account.budget
    scopes = " and ".join(one.subject.value.replace("_", " ") for one in budget.scopes)
    rule = f"The budget {budget.name} of this {scopes}"
    if cost_max_nanousd is None:
        return f"{rule} refuses it: the model has no price, so nobody knows what it costs."
    amount = amount_at(budget, now_s)
    article = "an" if budget.period is BudgetPeriod.HOUR else "a"
    each, most = f"{dollars(amount)} {article} {budget.period.value}", dollars(cost_max_nanousd)
    if cost_max_nanousd > amount:
        return f"{rule} is {each}, and this request may cost {most}."
    if is_held:
        return f"{rule} is {each}; what is left for the {most} it may cost is held for others."
    if budget.is_rolling:
        return f"{rule} is {each}, rolling, and less than the {most} it may cost is left of it now."
    end = datetime.fromtimestamp(account.period.ends_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{rule} is {each}, and less than the {most} it may cost is left until {end}."


def throttle_words(budget: BudgetRecord) -> str:
    """What the caller of a request is told that found no place in time under a throttle."""
    scopes = " and ".join(one.subject.value.replace("_", " ") for one in budget.scopes)
    return (
        f"The budget {budget.name} of this {scopes} is nearly or wholly used up, so it lets in "
        f"{budget.throttle_per_minute} requests a minute; there was no place in time."
    )


def dollars(nanousd: int) -> str:
    """An amount for people: to the cent if it is whole cents, else as exact as it is."""
    whole, rest = divmod(nanousd, 10**9)
    return f"${whole}.{f'{rest:09d}'.rstrip('0').ljust(2, '0')}"

"""How budgets stand at one moment: what the ledger has spent, what gateways hold, where it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from controlplane.bridge.budget_counters import NOTHING
from controlplane.bridge.budget_past import PastPeriod, read_past_periods
from controlplane.bridge.budgets import read_reserved
from controlplane.compiler import budget_record
from controlplane.decisions.budget_effects import Effect
from controlplane.decisions.budget_forecasts import forecast_rolling
from controlplane.decisions.budget_sums import previous_period
from controlplane.decisions.budgets import (
    Balance,
    Bucket,
    BudgetState,
    Forecast,
    Past,
    balance_of,
    each_of,
    forecast_of,
    plain_amount,
    state_with,
)
from controlplane.models import Budget, BudgetAccount
from controlplane.selectors.access import Access
from controlplane.selectors.budget_effects import EffectTold, list_effects
from controlplane.selectors.budgets import (
    Totals,
    get_counts,
    get_totals,
    get_upkeep,
    ledger_id,
    list_accounts,
    list_buckets,
    list_most_spent,
    row_id,
)
from controlplane.selectors.names import list_names
from inference.contract.kinds import BudgetSubject
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import (
    FOREVER,
    ROLLING,
    Account,
    Period,
    amount_at,
    window_of,
)
from inference.decisions.rules import zone_of

_EFFECTS_SINCE = timedelta(hours=2)
"""A list tells what budgets do just now; rows are hours."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One of those an account counts for; `id` as its row has it. `name` None: nobody can tell."""

    subject: str
    id: str
    name: str | None


@dataclass(frozen=True, slots=True)
class AccountStatus:
    """One account: whom it counts for, how it stands, where it goes, and what it had by stretch.

    `late_nanousd` is what a gateway process reserved again after it had been taken for dead and the
    rest had been given to others; `late_past_nanousd` is what of it went past the amount. None: the
    store does not answer.
    """

    subjects: Sequence[Subject]
    balance: Balance
    attempts: int
    unknown_cost: int
    late_nanousd: int | None
    late_past_nanousd: int | None
    forecast: Forecast | None
    buckets: Sequence[Bucket]


@dataclass(frozen=True, slots=True)
class Status:
    """A budget at one moment; `effects` are what it did in the hours of the present period.

    `is_counted` is false until the ledger was read for it, `is_checked` until the store's counters
    know of the ledger; then a budget that blocks refuses. `totals` and `previous` are None to
    readers who may not know what others spend. `past` are the last whole periods, newest first:
    what each would have meant for the amount of now; `previous` is the first of them.
    """

    record: BudgetRecord
    period: Period
    time_zone: str
    is_each: bool
    is_counted: bool
    is_checked: bool
    amount_nanousd: int
    plain_amount_nanousd: int
    thresholds_percent: Sequence[int]
    totals: Totals | None
    accounts: Sequence[AccountStatus]
    previous_period: Period
    previous: Past | None
    past: Sequence[PastPeriod] = ()
    effects: Mapping[Effect, EffectTold] = field(default_factory=dict)
    refused_s_ago: float | None = None

    @property
    def effects_told(self) -> Sequence[EffectTold]:
        """The effects there were, in a fixed order."""
        return [self.effects[one] for one in Effect if one in self.effects]


def read_status(access: Access, budget: Budget, now: datetime, *, top: int) -> Status:
    """How a budget stands, with the accounts that spent the most."""
    record, zone_name = budget_record(budget), budget.organisation.time_zone
    zone = zone_of(zone_name)
    period = window_of(record, zone, now.timestamp())
    is_whole = access.reads_organisation(budget.organisation_id)
    count = get_counts([budget.pk]).get(budget.pk)
    past: Sequence[PastPeriod] = ()
    if is_whole:
        past = read_past_periods(budget, record, zone, count, now_s=now.timestamp())
    upkeep = get_upkeep()
    is_seeded = upkeep is not None and upkeep.is_seeded
    begin = datetime.fromtimestamp(period.starts_s, UTC)
    effects = list_effects([budget.pk], begin).get(budget.pk, {}) if is_whole else {}
    return Status(
        record=record,
        period=period,
        time_zone=zone_name,
        is_each=each_of(budget.scopes),
        is_counted=count is not None and count.is_filled,
        is_checked=bool(is_seeded and count and upkeep and count.seeded_epoch == upkeep.epoch),
        amount_nanousd=amount_at(record, now.timestamp()),
        plain_amount_nanousd=plain_amount(record, now.timestamp()),
        thresholds_percent=budget.thresholds_percent,
        totals=get_totals(budget, period) if is_whole else None,
        accounts=_accounts(access, budget, record, period, now=now, top=top),
        previous_period=previous_period(record, zone, period),
        previous=past[0].past if past else None,
        past=past,
        effects=effects,
        refused_s_ago=_refused_s_ago(effects, now),
    )


def _refused_s_ago(effects: Mapping[Effect, EffectTold], now: datetime) -> float | None:
    told = effects.get(Effect.REFUSED)
    return None if told is None else (now - told.last_at).total_seconds()


def sole_account(budget: Budget, record: BudgetRecord, period: Period) -> Account | None:
    """The one account of a budget that counts nothing apart."""
    if each_of(budget.scopes):
        return None
    subjects = tuple(_subject_in_ledger(budget, one) for one in budget.scopes)
    return Account(record, subjects, FOREVER if record.is_rolling else period)


def _subject_in_ledger(budget: Budget, scope: Mapping[str, str]) -> str:
    if scope["subject"] == BudgetSubject.ORGANISATION:
        return budget.organisation_id
    return ledger_id(scope["subject"], scope["subject_id"])


def _accounts(
    access: Access,
    budget: Budget,
    record: BudgetRecord,
    period: Period,
    *,
    now: datetime,
    top: int,
) -> Sequence[AccountStatus]:
    rows = list(list_accounts(access, budget, period, top=top))
    sole = sole_account(budget, record, period)
    if not rows and sole is not None and access.reads_organisation(budget.organisation_id):
        rows = [_empty(sole)]
    keys = [row.key for row in rows]
    counters = read_reserved(keys)
    buckets = list_buckets(keys, period if record.is_rolling else None)
    names = list_names(access, {one for row in rows for one in _ids(budget, row)})
    found = []
    for row in rows:
        held = None if counters is None else counters.get(row.key, NOTHING)
        balance = _balance(budget, record, row, held.reserved if held else None, now)
        forecast = _forecast(record, period, row, buckets[row.key], balance, now)
        found.append(
            AccountStatus(
                subjects=_subjects(budget, row, names),
                balance=balance,
                attempts=row.attempts,
                unknown_cost=row.unknown_cost,
                late_nanousd=held.late if held else None,
                late_past_nanousd=held.past if held else None,
                forecast=forecast if row.spent_nanousd else None,
                buckets=buckets[row.key],
            )
        )
    return found


def _forecast(
    record: BudgetRecord,
    period: Period,
    row: BudgetAccount,
    buckets: Sequence[Bucket],
    balance: Balance,
    now: datetime,
) -> Forecast | None:
    """Where an account goes: to its period's end or, of one that rolls, a quarter of it ahead."""
    amount, now_s = balance.amount_nanousd, now.timestamp()
    if record.is_rolling:
        rolling = ROLLING[record.period]
        return forecast_rolling(rolling, buckets, amount_nanousd=amount, now_s=now_s)
    return forecast_of(
        record.period,
        period,
        buckets,
        spent_nanousd=row.spent_nanousd,
        amount_nanousd=amount,
        now_s=now_s,
    )


def _empty(account: Account) -> BudgetAccount:
    return BudgetAccount(key=account.key, subjects=list(account.subjects))


def _balance(
    budget: Budget,
    record: BudgetRecord,
    row: BudgetAccount,
    reserved: int | None,
    now: datetime,
) -> Balance:
    return balance_of(
        record,
        budget.thresholds_percent,
        spent_nanousd=row.spent_nanousd,
        reserved_nanousd=reserved,
        now_s=now.timestamp(),
    )


def _ids(budget: Budget, row: BudgetAccount) -> Sequence[str]:
    return [
        row_id(scope["subject"], own)
        for scope, own in zip(budget.scopes, row.subjects, strict=False)
    ]


def _subjects(budget: Budget, row: BudgetAccount, names: Mapping[str, str]) -> Sequence[Subject]:
    of_callers = (BudgetSubject.END_USER, BudgetSubject.TAG)
    found = []
    for scope, pk in zip(budget.scopes, _ids(budget, row), strict=False):
        name = pk if scope["subject"] in of_callers else names.get(pk)
        found.append(Subject(scope["subject"], pk, name))
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget in a list: its account that spent the most, or the only one."""

    balance: Balance
    ends_at: datetime
    state: BudgetState


def read_standings(
    access: Access, budgets: Sequence[Budget], now: datetime
) -> Mapping[str, Standing]:
    """How budgets stand, by id, as far as the reader knows of all spending; by few queries."""
    known = [row for row in budgets if access.reads_organisation(row.organisation_id)]
    records = {row.pk: budget_record(row) for row in known}
    zones = {row.pk: zone_of(row.organisation.time_zone) for row in known}
    at_s = now.timestamp()
    periods = {pk: window_of(one, zones[pk], at_s) for pk, one in records.items()}
    most = dict(list_most_spent(known, periods))
    for row in known:
        sole = sole_account(row, records[row.pk], periods[row.pk])
        if sole is not None and row.pk not in most:
            most[row.pk] = _empty(sole)
    counters = read_reserved([row.key for row in most.values()]) if most else {}
    effects = list_effects(list(records), now - _EFFECTS_SINCE)
    found = {}
    for row in known:
        account = most.get(row.pk) or BudgetAccount(key="", subjects=[])
        held = None if counters is None else counters.get(account.key)
        reserved = None if counters is None else (held.reserved if held else 0)
        balance = _balance(row, records[row.pk], account, reserved, now)
        ago_s = _refused_s_ago(effects.get(row.pk, {}), now)
        found[row.pk] = Standing(
            balance,
            datetime.fromtimestamp(periods[row.pk].ends_s, UTC),
            state_with(balance, refused_s_ago=ago_s),
        )
    return found

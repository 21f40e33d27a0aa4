"""What the ledger has of each budget's accounts: kept by the recorder, filled in where it begins.

A budget is counted from the moment its `BudgetCount` is there: whoever records holds a shared lock
while he looks, whoever begins to count an exclusive one. So each end is either seen by the one
reading of the ledger that fills the accounts or added by the recorder, and never both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Q

from controlplane.compiler import budget_record
from controlplane.decisions.budget_sums import (
    Spending,
    definition_of,
    previous_period,
    spending_of,
)
from controlplane.models import Budget, BudgetAccount, BudgetBucket, BudgetCount
from controlplane.selectors.budget_ledger import ledger_query, spendings_of
from inference.contract.events import End
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import FOREVER, ROLLING, Account, window_of
from inference.decisions.rules import zone_of

COUNTING_LOCK = 0x4857_4255
"""Key of the advisory lock of who begins to count ("HWBU"), the same for every process."""

KEPT = timedelta(days=100)
"""What periods that are over had is told for so long: a quarter and the one before it."""

QUIET_KEPT = timedelta(days=400)
"""An account that rolls is kept for so long after its last spending: far longer than its counter in
the state store, so that what one has forgotten the other never takes for counted twice."""

READ_S = 90
"""How long the reading of the ledger may take for one budget; a job may take little longer."""

_AGAIN = timedelta(minutes=5)
"""A reading that failed is not repeated before, or the ledger would be read all the time."""

_FETCHED = 5_000


def hold_counting() -> None:
    """Have those wait who begin to count, or change what days are, until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [COUNTING_LOCK])


def sum_spending(ends: Sequence[End]) -> Sequence[Spending]:
    """What these ends, new in the ledger, add to the accounts of budgets.

    Belongs into the transaction that records them, once that holds the counting.
    """
    organisations = {end.origin.organisation_id for end in ends if end.charges}
    budgets, zones = _counted(organisations) if organisations else ({}, {})
    return spending_of(ends, budgets, zones)


def add_spending(spendings: Sequence[Spending], *, now: datetime) -> None:
    """Add to accounts and buckets, in the order of their keys; between days and marks."""
    if not spendings:
        return
    accounts = [_account_values(one, now) for one in spendings]
    sums = ("spent_nanousd", "attempts", "unknown_cost")
    _upsert(BudgetAccount, _ACCOUNT, ("key",), accounts, sums=sums, replaced="updated_at")
    buckets = [
        {
            "key": one.key,
            "at": datetime.fromtimestamp(at, UTC),
            "ends_at": datetime.fromtimestamp(_counts_until_s(one.account, at), UTC),
            "spent_nanousd": spent,
        }
        for one in spendings
        for at, spent in sorted(one.buckets.items())
    ]
    columns = ("key", "at", "ends_at", "spent_nanousd")
    _upsert(BudgetBucket, columns, ("key", "at"), buckets, sums=("spent_nanousd",))


def add_spending_of(
    ends: Sequence[End], budgets: Sequence[BudgetRecord], time_zone: str, now: datetime
) -> int:
    """Add what these ends spent on the accounts of some budgets of one organisation alone.

    Returns how many accounts that is.
    """
    zones = {one.organisation_id: zone_of(time_zone) for one in budgets}
    found = spending_of(ends, {home: budgets for home in zones}, zones)
    add_spending(found, now=now)
    return len(found)


def correct_spending(changed: Sequence[End], newly_known: Sequence[End], *, now: datetime) -> None:
    """Add what the charges of these ends say to the accounts, of attempts that were counted before.

    Those of `newly_known` had no cost until now. Belongs into the transaction of the corrections,
    after the roll-ups.
    """
    hold_counting()
    budgets, zones = _counted({end.origin.organisation_id for end in changed})
    spendings = spending_of(changed, budgets, zones)
    for one in spendings:
        one.attempts = 0
    add_spending(spendings, now=now)
    known = spending_of(newly_known, budgets, zones)
    for one in known:
        one.unknown_cost = -one.attempts
        one.attempts = one.spent_nanousd = 0
        one.buckets = {}
    add_spending(known, now=now)


def _counted(
    organisations: Iterable[str],
) -> tuple[Mapping[str, Sequence[BudgetRecord]], Mapping[str, tzinfo]]:
    """The budgets that are counted as they are defined now, and the zones they go by."""
    rows = list(
        Budget.objects.filter(organisation_id__in=sorted(organisations))
        .select_related("organisation")
        .order_by("pk")
    )
    known = dict(
        BudgetCount.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "definition")
    )
    budgets: dict[str, list[BudgetRecord]] = defaultdict(list)
    zones: dict[str, tzinfo] = {}
    for row in rows:
        record, zone = budget_record(row), row.organisation.time_zone
        if known.get(row.pk) == definition_of(record, zone):
            budgets[row.organisation_id].append(record)
            zones[row.organisation_id] = zone_of(zone)
    return budgets, zones


def list_uncounted(now: datetime) -> Sequence[Budget]:
    """Budgets the ledger doesn't count as they are now, or whose filling failed a while ago."""
    begun = BudgetCount.objects.filter(Q(is_filled=True) | Q(since__gt=now - _AGAIN))
    known = dict(begun.values_list("pk", "definition"))
    return [
        row
        for row in Budget.objects.select_related("organisation").order_by("pk")
        if known.get(row.pk) != definition_of(budget_record(row), row.organisation.time_zone)
    ]


def begin_to_count(budget: Budget, now: datetime) -> None:
    """Count a budget from now on, and add what its present period and the one before had already.

    The recorder waits for as long as it takes to mark that, not for the reading.
    """
    record, time_zone = budget_record(budget), budget.organisation.time_zone
    zone = zone_of(time_zone)
    window = window_of(record, zone, now.timestamp())
    before = previous_period(record, zone, window)
    current = FOREVER if record.is_rolling else window
    statement, values = ledger_query(record, before.starts_s, current)
    with _nobody_records():
        with transaction.atomic():
            _forget([budget.pk])
            definition = definition_of(record, time_zone)
            BudgetCount.objects.create(pk=budget.pk, definition=definition, since=now)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, true)", [str(READ_S * 1_000)]
            )
            # a cursor sees what was there when it was declared, however late it is read
            cursor.execute(f"DECLARE budget_fill NO SCROLL CURSOR FOR {statement}", values)
            _unlock()
            while rows := _fetched(cursor):
                add_spending(spendings_of(rows, record, before, current), now=now)
            cursor.execute("CLOSE budget_fill")
            BudgetCount.objects.filter(pk=budget.pk).update(is_filled=True)


@contextmanager
def _nobody_records() -> Iterator[None]:
    """Begins once no batch is being recorded; ends, at the latest, with the block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [COUNTING_LOCK])
    try:
        yield
    finally:
        _unlock()


def _unlock() -> None:
    """Let others record again, if they can't yet."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_unlock(%s) FROM pg_locks WHERE locktype = 'advisory' "
            "AND pid = pg_backend_pid() AND classid = 0 AND objid = %s AND mode = 'ExclusiveLock'",
            [COUNTING_LOCK, COUNTING_LOCK],
        )


def _fetched(cursor: CursorWrapper) -> list[tuple[object, ...]]:
    cursor.execute(f"FETCH {_FETCHED} FROM budget_fill")
    return list(cursor.fetchall())


_ACCOUNT = (
    *("key", "budget_id", "organisation_id", "subjects", "starts_at", "ends_at"),
    *("spent_nanousd", "attempts", "unknown_cost", "updated_at"),
)


def _counts_until_s(account: Account, at_s: int) -> int:
    """Until when a stretch counts: to the end of its period, or until it is too old."""
    if account.budget.is_rolling:
        rolling = ROLLING[account.budget.period]
        return at_s + rolling.step_s + rolling.length_s
    return account.period.ends_s


def _account_values(one: Spending, now: datetime) -> Mapping[str, object]:
    account = one.account
    return {
        "key": one.key,
        "budget_id": account.budget.id,
        "organisation_id": account.budget.organisation_id,
        "subjects": account.subjects,
        "starts_at": datetime.fromtimestamp(account.period.starts_s, UTC),
        "ends_at": datetime.fromtimestamp(account.period.ends_s, UTC),
        "spent_nanousd": one.spent_nanousd,
        "attempts": one.attempts,
        "unknown_cost": one.unknown_cost,
        "updated_at": now,
    }


def _upsert(
    model: type[BudgetAccount] | type[BudgetBucket],
    columns: Sequence[str],
    unique: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    *,
    sums: Sequence[str],
    replaced: str = "",
) -> None:
    if not rows:
        return
    table, names = model._meta.db_table, ", ".join(columns)
    sets = [f"{name} = {table}.{name} + EXCLUDED.{name}" for name in sums]
    sets += [f"{replaced} = EXCLUDED.{replaced}"] if replaced else []
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {names} "
            f"FROM json_populate_recordset(NULL::{table}, %s::json) "
            f"ON CONFLICT ({', '.join(unique)}) DO UPDATE SET {', '.join(sets)}",
            [msgspec.json.encode(rows).decode()],
        )


def _forget(budget_ids: Sequence[str]) -> None:
    """Take away all that was counted of budgets."""
    accounts = BudgetAccount.objects.filter(budget_id__in=budget_ids)
    BudgetBucket.objects.filter(key__in=accounts.values("key")).delete()
    accounts.delete()
    BudgetCount.objects.filter(pk__in=budget_ids).delete()


def forget_removed() -> None:
    """Take away what was counted of budgets that are there no more."""
    known = Budget.objects.values("pk")
    gone = list(BudgetCount.objects.exclude(pk__in=known).values_list("pk", flat=True))
    if gone:
        with transaction.atomic():
            _forget(gone)


def forget_old_accounts(now: datetime) -> int:
    """Remove what periods had that ended long ago; returns how many accounts."""
    old = now - KEPT
    BudgetBucket.objects.filter(ends_at__lt=old).delete()
    forever = datetime.fromtimestamp(FOREVER.ends_s, UTC)
    quiet = Q(ends_at=forever, updated_at__lt=now - QUIET_KEPT)
    return BudgetAccount.objects.filter(Q(ends_at__lt=old) | quiet).delete()[0]

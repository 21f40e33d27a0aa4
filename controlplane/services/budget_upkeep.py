"""The rows of the comparison of ledger and store, and what people are told of it."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from controlplane.models import (
    Budget,
    BudgetAccount,
    BudgetCorrection,
    BudgetCount,
    BudgetReading,
    BudgetUpkeep,
    Request,
)
from controlplane.selectors.budget_windows import spent_since
from inference.contract.kinds import BudgetPeriod
from inference.decisions.budgets import FOREVER, ROLLING

UPKEEP_LOCK = 0x4857_424B
"""Key of the advisory lock of the jobs that keep budgets ("HWBK"), the same for every process."""

MOVED = timedelta(minutes=15)
"""Accounts that had nothing for so long were compared often since."""

CORRECTIONS_KEPT = timedelta(days=90)
SEEDED, MISSED, TWICE = "seeded", "missed", "twice"


@dataclass(frozen=True, slots=True)
class Current:
    """One account whose period is under way."""

    key: str
    budget_id: str
    organisation_id: str
    spent_nanousd: int
    ends_at: datetime

    @property
    def is_rolling(self) -> bool:
        """Whether what it counts leaves it bit by bit."""
        return int(self.ends_at.timestamp()) == FOREVER.ends_s


@contextmanager
def sole_job() -> Iterator[bool]:
    """Whether no other job keeps budgets; as long as this lasts none will."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [UPKEEP_LOCK])
        (is_sole,) = cursor.fetchone()
    try:
        yield is_sole
    finally:
        if is_sole:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [UPKEEP_LOCK])


def get_or_make_upkeep() -> BudgetUpkeep:
    """The one row."""
    return BudgetUpkeep.objects.get_or_create(pk=1)[0]


def note(upkeep: BudgetUpkeep, **values: Any) -> None:
    """Write down how far the comparison is."""
    for name, value in values.items():
        setattr(upkeep, name, value)
    upkeep.save(update_fields=list(values))


def is_ledger_empty() -> bool:
    """Whether nothing was ever recorded."""
    return not Request.objects.exists()


def list_unseeded(epoch: str) -> Sequence[str]:
    """Budgets that are on and counted, of which this life of the store's counters wasn't told.

    One that is off has to be told anew once it is on again.
    """
    off = Budget.objects.filter(is_enabled=False).values("pk")
    BudgetCount.objects.filter(pk__in=off).exclude(seeded_epoch="").update(seeded_epoch="")
    on = Budget.objects.filter(is_enabled=True).values("pk")
    rows = BudgetCount.objects.filter(pk__in=on, is_filled=True).exclude(seeded_epoch=epoch)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def set_seeded(budget_ids: Collection[str], epoch: str) -> None:
    """Note that the counters were told of these budgets."""
    BudgetCount.objects.filter(pk__in=budget_ids).update(seeded_epoch=epoch)


def list_current(
    now: datetime, *, budget_ids: Collection[str] | None = None, is_moved: bool = False
) -> Sequence[Current]:
    """Accounts of budgets that are on, in their present period; of these budgets, if named.

    `is_moved` leaves out those that had nothing lately.
    """
    on = Budget.objects.filter(is_enabled=True).values("pk")
    rows = BudgetAccount.objects.filter(starts_at__lte=now, ends_at__gt=now, budget_id__in=on)
    if budget_ids is not None:
        rows = rows.filter(budget_id__in=list(budget_ids))
    if is_moved:
        rows = rows.filter(updated_at__gt=now - MOVED)
    columns = ("key", "budget_id", "organisation_id", "spent_nanousd", "ends_at")
    return [Current(*row) for row in rows.order_by("key").values_list(*columns)]


def list_windows(
    budget_ids: Collection[str], now: datetime
) -> Mapping[BudgetPeriod, Mapping[str, tuple[int, Mapping[int, int]]]]:
    """Of accounts that roll, by the period of their budgets: what has left the window, and what
    they spent in each stretch of it.
    """
    found: dict[BudgetPeriod, dict[str, tuple[int, Mapping[int, int]]]] = {}
    for budget in Budget.objects.filter(pk__in=list(budget_ids), is_rolling=True):
        period = BudgetPeriod(budget.period)
        window = ROLLING[period].window(now.timestamp())
        with transaction.atomic():
            with connection.cursor() as cursor:
                # sums and stretches of one moment
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            ever = dict(
                BudgetAccount.objects.filter(budget_id=budget.pk).values_list(
                    "key", "spent_nanousd"
                )
            )
            stretches = spent_since(list(ever), window.starts_s)
        own = found.setdefault(period, {})
        for key, spent in ever.items():
            own[key] = (spent - sum(stretches[key].values()), stretches[key])
    return found


def keep_readings(told: Mapping[str, int], settled: Mapping[str, int] | None) -> None:
    """Begin a comparison, or go on with it: what ledger and store say of each account."""
    rows = [
        BudgetReading(
            key=key,
            told_nanousd=amount,
            settled_nanousd=None if settled is None else settled.get(key, 0),
        )
        for key, amount in told.items()
    ]
    with transaction.atomic():
        BudgetReading.objects.all().delete()
        BudgetReading.objects.bulk_create(rows, batch_size=5_000)


def told_before() -> Mapping[str, int]:
    """What the ledger had when the comparison began."""
    return dict(BudgetReading.objects.values_list("key", "told_nanousd"))


def settled_before() -> Mapping[str, int]:
    """What the store said."""
    rows = BudgetReading.objects.filter(settled_nanousd__isnull=False)
    return dict(rows.values_list("key", "settled_nanousd"))


def book_corrections(
    deltas: Mapping[str, int], accounts: Sequence[Current], why: str, now: datetime
) -> None:
    """Write down what counters are told, a row a budget."""
    found: dict[str, BudgetCorrection] = {}
    amounts: dict[str, list[int]] = defaultdict(list)
    for one in accounts:
        if one.key in deltas:
            amounts[one.budget_id].append(deltas[one.key])
            found[one.budget_id] = BudgetCorrection(
                at=now, organisation_id=one.organisation_id, budget_id=one.budget_id, why=why
            )
    for pk, row in found.items():
        row.accounts = len(amounts[pk])
        row.added_nanousd = sum(one for one in amounts[pk] if one > 0)
        row.taken_nanousd = -sum(one for one in amounts[pk] if one < 0)
    BudgetCorrection.objects.bulk_create(found.values())


def forget_old_corrections(now: datetime) -> int:
    """Remove what was corrected long ago; returns how many rows."""
    return BudgetCorrection.objects.filter(at__lt=now - CORRECTIONS_KEPT).delete()[0]

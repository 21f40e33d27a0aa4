"""What accounts of budgets spent in a window: of those that roll, the sum of their stretches."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from django.db.models import F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from controlplane.models import Budget, BudgetAccount, BudgetBucket
from inference.decisions.budgets import FOREVER, Period

_FIRST = datetime.fromtimestamp(FOREVER.starts_s, UTC)


def accounts_in(budget: Budget, window: Period) -> QuerySet[BudgetAccount]:
    """A budget's accounts with `spent`: what each spent in this period or window."""
    rows = BudgetAccount.objects.filter(budget_id=budget.pk)
    if not budget.is_rolling:
        begin = datetime.fromtimestamp(window.starts_s, UTC)
        return rows.filter(starts_at=begin).annotate(spent=F("spent_nanousd"))
    return with_window(rows.filter(starts_at=_FIRST), window).filter(spent__gt=0)


def with_window(rows: QuerySet[BudgetAccount], window: Period) -> QuerySet[BudgetAccount]:
    """Accounts that roll, with `spent` in a window."""
    since, until = (datetime.fromtimestamp(one, UTC) for one in (window.starts_s, window.ends_s))
    buckets = BudgetBucket.objects.filter(key=OuterRef("key"), at__gte=since, at__lt=until)
    total = buckets.values("key").annotate(total=Sum("spent_nanousd")).values("total")
    return rows.annotate(spent=Coalesce(Subquery(total), 0))


def told(row: BudgetAccount) -> BudgetAccount:
    """The row with what it spent in the window in place of all it ever did."""
    row.spent_nanousd = int(row.spent)  # type: ignore[attr-defined]
    return row


def spent_since(keys: Collection[str], since_s: int) -> Mapping[str, Mapping[int, int]]:
    """What accounts spent by stretch, by its first second, since then."""
    found: dict[str, dict[int, int]] = {key: {} for key in keys}
    since = datetime.fromtimestamp(since_s, UTC)
    rows = BudgetBucket.objects.filter(key__in=list(keys), at__gte=since)
    for key, at, spent in rows.values_list("key", "at", "spent_nanousd"):
        found[key][int(at.timestamp())] = spent
    return found

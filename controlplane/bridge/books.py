"""Whether the books agree, and how far back the ledger goes, as System tells it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from controlplane.bridge.parts import Part, iso
from controlplane.models import LedgerCheck
from controlplane.selectors.partitions import get_last_dropped, list_days
from controlplane.selectors.reconciliation import list_checks

STALE = timedelta(minutes=20)
"""The jobs compare every 5 minutes."""

_SHOWN = 5


def books_part(now: datetime) -> Part:
    """The last comparisons: degraded with each difference named, stale when none ran lately."""
    checks = list_checks()
    differences = [difference_words(one) for check in checks.values() for one in check.differences]
    newest = max((check.checked_at for check in checks.values()), default=None)
    days = list_days()
    dropped = get_last_dropped()
    facts = {
        **{name.replace("-", "_"): _check_words(check) for name, check in checks.items()},
        "differences": differences,
        "rows_kept_for": _kept_words(),
        "oldest_day": str(days[0]) if days else None,
        "last_dropped_day": None if dropped is None else dropped[0],
        "last_dropped_at": None if dropped is None else iso(dropped[1]),
        "last_compared_at": iso(newest),
    }
    told = "; ".join(differences[:_SHOWN])
    if len(differences) > _SHOWN:
        told += f"; and {len(differences) - _SHOWN} more"
    if newest is None:
        return Part("books", "unknown", "nothing was compared yet", facts=facts)
    age = max(now - newest, timedelta())
    state = "degraded" if differences else "stale" if age > STALE else "ok"
    return Part("books", state, told, age_s=round(age.total_seconds(), 1), facts=facts)


def difference_words(one: Mapping[str, Any]) -> str:
    """One difference as a sentence's part; by how much, for the figures are an organisation's."""
    off = one["found"] - one["expected"]
    more = "more" if off > 0 else "less"
    figure = one["figure"].replace("_", " ")
    return f"{one['book']}: {abs(off):,} {figure} {more} than {one['against']}, {one['place']}"


def count_differences() -> int | None:
    """How many differences the last comparisons found; None before the first."""
    checks = list_checks()
    return sum(len(check.differences) for check in checks.values()) if checks else None


def _check_words(check: LedgerCheck) -> str:
    if check.detail:
        return f"not compared: {check.detail}"
    found = len(check.differences)
    told = f"{found} differences" if found else "equal"
    if check.since is not None and check.until is not None:
        told += f", {check.since:%d %b %H:%M} to {check.until:%H:%M} UTC"
    return told


def _kept_words() -> str:
    days = settings.HEADWORKS.ledger_days
    return "ever" if days is None else f"{days} days"

"""The books compared, one pair after the other, and what came of it written down.

Gateways count, journals keep, the ledger has rows, roll-ups sum: what one has the next must have.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from django.db import OperationalError, connection, transaction

from controlplane.decisions.reconciliation import Difference, compare, compare_counters
from controlplane.models import LedgerCheck
from controlplane.selectors.reconciliation import (
    list_checks,
    read_counters,
    read_journals,
    read_ledger,
    read_roll_ups,
)

PERIOD = timedelta(minutes=5)

STRETCH = timedelta(hours=1)
"""So much of the ledger is read at a time: the newest whole hour, and one before it."""

LAG = timedelta(minutes=5)
"""What ended so lately may still be on its way."""

LOOKED_BACK = timedelta(days=7)
"""The hours of so many days are read again, one after the other."""

PATIENCE_MS = 20_000
"""How long one comparison may read."""

_CANCELLED = "57014"
_LOCK = 0x4857_4C43
"""Key of the advisory lock of comparisons ("HWLC"), the same for every process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one comparison found, of which time."""

    differences: Sequence[Difference] = ()
    since: datetime | None = None
    until: datetime | None = None
    detail: str = ""


@dataclass(slots=True)
class _Run:
    now: datetime
    differences: int = 0
    names: list[str] = field(default_factory=list)


def reconcile(now: datetime) -> int | None:
    """Compare all books; returns how many differences there are, None if another is at it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return None
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(PATIENCE_MS)])
        run = _Run(now)
        _note(run, "journals", _journals)
        _note(run, "roll-ups", lambda: _roll_ups(now))
        _note(run, "ledger", lambda: _ledger(_newest(now)))
        _note(run, "ledger before", lambda: _ledger(_older(now)))
        _note(run, "gateways", lambda: _counters(now))
    return run.differences


def _note(run: _Run, name: str, check: Callable[[], Outcome]) -> None:
    outcome = _within_patience(check)
    run.differences += len(outcome.differences)
    LedgerCheck.objects.update_or_create(
        name=name,
        defaults={
            "checked_at": run.now,
            "since": outcome.since,
            "until": outcome.until,
            "differences": [asdict(one) for one in outcome.differences],
            "detail": outcome.detail,
        },
    )


def _within_patience(check: Callable[[], Outcome]) -> Outcome:
    try:
        with transaction.atomic():
            return check()
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
            raise
        return Outcome(detail=f"not read within {PATIENCE_MS // 1_000} s")


def _journals() -> Outcome:
    committed, accounted = read_journals()
    return Outcome(compare("ledger", "journals", committed, accounted))


def _roll_ups(now: datetime) -> Outcome:
    books = read_roll_ups(now)
    minutes = books.get("minutes", {})
    found = [
        one
        for book in sorted(books)
        if book != "minutes"
        for one in compare(book, "minutes", minutes, books[book])
    ]
    if minutes and len(books) == 1:
        return Outcome(compare("hours", "minutes", minutes, {}), until=now)
    return Outcome(found, until=now)


def _ledger(since: datetime) -> Outcome:
    until = since + STRETCH
    books = read_ledger(since, until)
    found = compare("minutes", "ledger", books.get("ledger", {}), books.get("minutes", {}))
    return Outcome(found, since, until)


def _newest(now: datetime) -> datetime:
    return (now - LAG).replace(minute=0, second=0, microsecond=0) - STRETCH


def _older(now: datetime) -> datetime:
    """The hour before the one that was read again last; from the newest once all were."""
    newest = _newest(now)
    last = list_checks().get("ledger before")
    if last is None or last.since is None or last.since - STRETCH < newest - LOOKED_BACK:
        return newest - STRETCH
    return last.since - STRETCH


def _counters(now: datetime) -> Outcome:
    since = _newest(now)
    until = since + STRETCH
    books = read_counters(since, until)
    if books is None:
        return Outcome(since=since, until=until, detail="not every gateway was heard all the time")
    sums = {
        book: {place: figures["requests"] for place, figures in places.items()}
        for book, places in books.items()
    }
    found = compare_counters(sums.get("gateways", {}), sums.get("ledger", {}))
    return Outcome(found, since, until)

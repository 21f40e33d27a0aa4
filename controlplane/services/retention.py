"""The ledger's old days leave: whole partitions are dropped, roll-ups stay."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from django.db import OperationalError, connection, transaction

from controlplane.selectors.partitions import list_days
from controlplane.services import audit
from controlplane.services.actors import Via, system_actor
from controlplane.services.requests import LOCK_TIMEOUT, PARTITION_LOCK, TABLES

MOST_DAYS = 30
"""So many days go in one run; the next one goes on."""

_DELETE_ROWS = 10_000


def drop_old_days(now: datetime, kept_days: int | None) -> Sequence[date]:
    """Drop the days that are older than so many and return them; None keeps everything.

    Each is a transaction of its own with an audit entry, and waits for readers of the ledger for a
    moment only: a day that can't be had now is dropped by a later run.
    """
    if kept_days is None:
        return ()
    before = now.date() - timedelta(days=kept_days)
    dropped = []
    for day in [one for one in list_days() if one < before][:MOST_DAYS]:
        try:
            _drop(day, kept_days)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != "55P03":
                raise
            break
        dropped.append(day)
    _delete_stray(before)
    return dropped


def _drop(day: date, kept_days: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITION_LOCK])
        for table in TABLES:
            cursor.execute(f"DROP TABLE IF EXISTS {table}_{day:%Y%m%d}")
        audit.record(
            system_actor(
                "retention", via=Via.JOB, reason=f"The ledger's rows are kept for {kept_days} days."
            ),
            action="delete",
            noun="requests",
            object_id=str(day),
            organisation_id=None,
            before={"day": str(day)},
        )


def _delete_stray(before: date) -> None:
    """What came so late that its day had no partition any more, some rows at a time."""
    for table in TABLES:
        deleted = _DELETE_ROWS
        while deleted == _DELETE_ROWS:
            with connection.cursor() as cursor:
                cursor.execute(
                    f"DELETE FROM {table}_default WHERE ctid = ANY(ARRAY("
                    f"SELECT ctid FROM {table}_default WHERE day < %s LIMIT %s))",
                    [before, _DELETE_ROWS],
                )
                deleted = cursor.rowcount

"""Writes of the ledger's own tables: rows as they come in, partitions as days come up.

Facts have no actor and no audit row; they are written once, by the recorder, and never changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime, timedelta

import msgspec
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Model

from controlplane.decisions.ledger import ChargeRow, RequestRow, charge_rows, request_row
from controlplane.models.requests import Charge, Request
from inference.contract.events import End

TABLES = (Request._meta.db_table, Charge._meta.db_table)
# One number for all who change partitions; any constant will do as long as nobody else uses it.
PARTITION_LOCK = 7_215_044_301
LOCK_TIMEOUT = "2s"


def insert_requests(
    ends: Sequence[End], names: Mapping[str, str], *, now: datetime
) -> tuple[End, ...]:
    """Insert the rows of requests not yet in the ledger and return those; the rest are repeats.

    Call it inside a transaction. Rows go in by key, so that two writers of the same requests wait
    for each other instead of dead-locking.
    """
    by_id = {end.event_id: end for end in ends}
    ordered = [by_id[event_id] for event_id in sorted(by_id)]
    requests = [request_row(end, names, recorded_at=now) for end in ordered]
    inserted = _insert(Request, RequestRow, requests)
    new = tuple(end for end, row in zip(ordered, requests, strict=True) if row.event_id in inserted)
    charges = [row for end in new for row in charge_rows(end, names)]
    _insert(Charge, ChargeRow, charges)
    return new


def _insert(model: type[Model], shape: type, rows: Sequence[object]) -> frozenset[str]:
    """Insert what isn't there yet and return its event ids.

    One statement and one parameter whatever the number of rows; the types are the table's.
    """
    if not rows:
        return frozenset()
    table = model._meta.db_table
    columns = ", ".join(field.name for field in fields(shape))
    statement = (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(NULL::{table}, %s::json) "
        f"ON CONFLICT DO NOTHING RETURNING event_id"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [msgspec.json.encode(rows).decode()])
        return frozenset(row[0] for row in cursor.fetchall())


def ensure_partitions(days: Iterable[date]) -> None:
    """Give each day its partition, moving what the default partition already holds of it.

    Takes a short exclusive lock of the default partitions. Raises OperationalError when that is
    not to be had within two seconds; until a later try the day's rows go to the default partition.
    """
    for day in sorted(set(days)):
        for table in TABLES:
            with transaction.atomic():
                _ensure_partition(table, day)


def _ensure_partition(table: str, day: date) -> None:
    partition = f"{table}_{day:%Y%m%d}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [partition])
        if cursor.fetchone()[0]:
            return
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [PARTITION_LOCK])
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [partition])
        if cursor.fetchone()[0]:
            return
        _make_partition(cursor, table, partition, day)


def _make_partition(cursor: CursorWrapper, table: str, partition: str, day: date) -> None:
    default = f"{table}_default"
    cursor.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
    cursor.execute(
        f"CREATE TABLE {partition} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
    )
    cursor.execute(
        f"WITH moved AS (DELETE FROM {default} WHERE day = %s RETURNING *) "
        f"INSERT INTO {partition} SELECT * FROM moved",
        [day],
    )
    cursor.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM (%s) TO (%s)",
        [day, day + timedelta(days=1)],
    )

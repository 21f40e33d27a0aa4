"""How roll-ups grow: what is there already is added to, by one statement."""

from collections.abc import Mapping, Sequence

import msgspec
from django.db import connection
from django.db.models import Model


def add_up(
    model: type[Model],
    key: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    *,
    sums: Sequence[str],
    label: bool = False,
) -> None:
    """Add to the rows in the order given; the last label that isn't empty stays.

    Those with a label are days, which know when they were last added to.
    """
    if not rows:
        return
    table = model._meta.db_table
    keys = ", ".join(key)
    columns = ", ".join([keys, *sums, *(["label"] if label else [])])
    changes = [f"{name} = {table}.{name} + EXCLUDED.{name}" for name in sums]
    if label:
        changes.append(f"label = COALESCE(NULLIF(EXCLUDED.label, ''), {table}.label)")
        changes.append("changed_at = statement_timestamp()")
    statement = (
        f"INSERT INTO {table} ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(NULL::{table}, %s::json) "
        f"ON CONFLICT ({keys}) DO UPDATE SET {', '.join(changes)}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [msgspec.json.encode(rows).decode()])

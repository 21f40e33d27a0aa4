"""The ledger's partitions: which days have one."""

from collections.abc import Sequence
from datetime import date, datetime

from django.db import connection

from controlplane.models import AuditEntry, Request

_DAYS = """
SELECT to_date(right(child.relname, 8), 'YYYYMMDD')
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = %s::regclass AND child.relname ~ '_[0-9]{8}$'
ORDER BY 1
"""


def list_days() -> Sequence[date]:
    """The days that have a partition, the oldest first; some are of days to come."""
    with connection.cursor() as cursor:
        cursor.execute(_DAYS, [Request._meta.db_table])
        return [row[0] for row in cursor.fetchall()]


def get_last_dropped() -> tuple[str, datetime] | None:
    """The day that was dropped last, and when."""
    row = (
        AuditEntry.objects.filter(noun="requests", action="delete", organisation_id=None)
        .order_by("-id")
        .values_list("object_id", "at")
        .first()
    )
    return None if row is None else (str(row[0]), row[1])

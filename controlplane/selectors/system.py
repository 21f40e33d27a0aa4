"""What the database tells of itself and of the installation's books."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Max, Sum

from controlplane.models import ConfigRevision, JournalMark, PoisonRecord
from controlplane.selectors.live import Coverage
from controlplane.selectors.live_rows import read_newest


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """PostgreSQL as it answers; `pending` are migrations of this release not applied yet."""

    version: str
    size_bytes: int
    migration: str
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """How far the ledger has come, and what could not be recorded.

    `missing_events` were in the ledger before this one was put back, and have not come again.
    """

    journals: int
    last_mark_at: datetime | None
    poison_records: int
    last_poison_at: datetime | None
    missing_events: int


def get_database_facts() -> DatabaseFacts:
    """Version, size and migrations of the database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), pg_database_size(current_database())"
        )
        version, size_bytes = cursor.fetchone()
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    ours = [name for app, name in executor.loader.applied_migrations if app == "controlplane"]
    return DatabaseFacts(
        version=str(version),
        size_bytes=int(size_bytes),
        migration=max(ours, default="none"),
        pending=tuple(f"{step.app_label}.{step.name}" for step, _ in plan),
    )


def get_ledger_facts() -> LedgerFacts:
    """Marks of the journals and the records set aside."""
    marks = JournalMark.objects.aggregate(
        count=Count("pk"), last=Max("updated_at"), missing=Sum("missing")
    )
    poison = PoisonRecord.objects.aggregate(count=Count("pk"), last=Max("at"))
    return LedgerFacts(
        journals=marks["count"],
        last_mark_at=marks["last"],
        poison_records=poison["count"],
        last_poison_at=poison["last"],
        missing_events=marks["missing"] or 0,
    )


def get_coverage(now: datetime) -> Coverage:
    """Which gateways the newest sample covers, and how old it is; nothing before the first."""
    return Coverage.of_row(read_newest(now + timedelta(minutes=1)).shown)


def get_latest_version() -> tuple[str, int] | None:
    """Lineage and number of the newest version, or None while there is none."""
    row = ConfigRevision.objects.order_by("-id").values_list("lineage", "version").first()
    return None if row is None else (str(row[0]), int(row[1]))

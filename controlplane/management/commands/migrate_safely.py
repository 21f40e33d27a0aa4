"""Migrate under an advisory lock: of many processes that start at once one migrates, all go on."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from controlplane.bridge.database import answering_within

MIGRATION_LOCK = 0x48574D47
"""Key of the advisory lock of migrations ("HWMG"), the same for every process."""


class Command(BaseCommand):
    help = "Bring the database's schema up to date, one process at a time."
    requires_system_checks: tuple[str, ...] = ()

    def handle(self, *args: Any, **options: Any) -> None:
        connection.ensure_connection()
        with answering_within(connection.connection, None):
            self._migrate(options["verbosity"])

    def _migrate(self, verbosity: int) -> None:
        with connection.cursor() as cursor:
            # waiting for another's migration, or making a large one, is no statement to cut off
            cursor.execute("SET statement_timeout = 0")
            cursor.execute("SET lock_timeout = 0")
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            call_command("migrate", interactive=False, verbosity=verbosity)
        finally:
            # a pooled session outlives this command, so it's handed back as it was
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
                cursor.execute("RESET statement_timeout")
                cursor.execute("RESET lock_timeout")

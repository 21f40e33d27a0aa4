"""All that must be done before a one-machine installation serves, in one process.

One after another they would each load Django again, on the cores an engine is loading on.
"""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from controlplane.errors import DatabaseBehind


class Command(BaseCommand):
    help = "Collect static files, migrate, set up the demonstration, publish. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--secrets-file", type=Path, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        self._step("static files", "collectstatic", interactive=False, verbosity=0)
        self._step("migrations", "migrate_safely", verbosity=0)
        # pages must come up to say that the database is behind, and how to mend it
        try:
            self._step("demonstration", "seed_demo", secrets_file=options["secrets_file"])
        except DatabaseBehind as error:
            self.stdout.write(f"demonstration not set up: {error.detail}")
        self._step("configuration", "publish_configuration", may_be_behind=True)

    def _step(self, what: str, command: str, **options: Any) -> None:
        began = time.monotonic()
        call_command(command, **options)
        self.stdout.write(f"{what}: done in {time.monotonic() - began:.1f} s")
        self.stdout.flush()

"""Set up the demonstration's organisation, pools, route, user, key and token."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from controlplane.local.access import read_pairs, write_pairs
from controlplane.local.demo import DemoProblem, Upstream, seed


class Command(BaseCommand):
    help = "Set up the demonstration; safe to repeat. Secrets go to a file, never to the terminal."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--secrets-file", type=Path, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        url = os.environ.get("HEADWORKS_DEMO_UPSTREAM_URL")
        key = os.environ.get("HEADWORKS_DEMO_UPSTREAM_KEY") or None
        demo_file = Path(settings.HEADWORKS.var) / "demo.env"
        try:
            # a secret that was made and never told would lock everybody out
            with transaction.atomic():
                made = seed(
                    has_engine=os.environ.get("HEADWORKS_DEMO_ENGINE") == "vllm",
                    upstream=Upstream(url, key) if url else None,
                    known=frozenset(read_pairs(demo_file)),
                )
        except DemoProblem as problem:
            raise CommandError(str(problem)) from problem
        write_pairs(options["secrets_file"], made)
        self.stdout.write(f"demonstration set up; new secrets: {', '.join(sorted(made)) or 'none'}")

"""Publish the newest version, which is made first if the rows are not what it holds."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.bridge import publisher
from controlplane.bridge.parts import ADOPT
from controlplane.services import snapshots
from controlplane.services.actors import Via, system_actor

_REFUSED = (
    "the state store holds a newer version than this database; if it was restored from a back-up, "
    f"run {ADOPT}"
)
_FAILURES: Mapping[publisher.Publication, str] = {
    publisher.Publication.UNAVAILABLE: "the state store is not answering",
    publisher.Publication.REFUSED: _REFUSED,
}


class Command(BaseCommand):
    help = "Publish the newest configuration to the state store."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--may-be-behind", action="store_true", help="only say so if the store is ahead"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        snapshots.stage_current(system_actor("publish_configuration", via=Via.COMMAND))
        result = publisher.publish()
        if result is publisher.Publication.REFUSED and options["may_be_behind"]:
            self.stdout.write(f"configuration not published: {_REFUSED}")
            return
        if result in _FAILURES:
            raise CommandError(f"the configuration was not published: {_FAILURES[result]}")
        self.stdout.write(f"configuration {result.value}")

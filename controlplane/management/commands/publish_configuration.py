"""Publish the newest version; the first start of an installation makes one."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.bridge import publisher
from controlplane.services import snapshots
from controlplane.services.actors import Via, system_actor

_FAILURES: Mapping[publisher.Publication, str] = {
    publisher.Publication.UNAVAILABLE: "the state store is not answering",
    publisher.Publication.REFUSED: "the state store holds a newer version than this database",
}


class Command(BaseCommand):
    help = "Publish the newest configuration to the state store."

    def handle(self, *args: Any, **options: Any) -> None:
        snapshots.stage_first(system_actor("publish_configuration", via=Via.COMMAND))
        result = publisher.publish()
        if result in _FAILURES:
            raise CommandError(f"the configuration was not published: {_FAILURES[result]}")
        self.stdout.write(f"configuration {result.value}")

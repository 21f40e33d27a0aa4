"""Make this database's configuration the newest there is, after it was restored from a back-up."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import RedisError

from controlplane.bridge.epochs import Epochs, read_epochs, sweep
from controlplane.bridge.parts import words_about
from controlplane.bridge.publisher import Publication
from controlplane.decisions.epochs import Newer
from controlplane.management.refusals import refusals_told
from controlplane.selectors.system import get_latest_version
from controlplane.selectors.usage_recording import get_marks
from controlplane.services.actors import Via, system_actor
from controlplane.services.adoption import adopt_configuration

NOT_DONE = "nothing was changed: run it again with --yes to do this"


class Command(BaseCommand):
    help = (
        "Begin a new history with this database's configuration, so that gateways which hold a "
        "newer one take it. Without --yes it only says what it would do."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="do it")
        parser.add_argument(
            "--force", action="store_true", help="also if nobody is known to be ahead"
        )
        parser.add_argument("--reason", default="restored from a back-up")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            epochs = read_epochs()
        except (RedisError, OSError) as error:
            raise CommandError("the state store is not answering; nothing was changed") from error
        newer = epochs.newer
        for line in _plan(newer, epochs):
            self.stdout.write(line)
        if newer is None and not options["force"]:
            self.stdout.write("there is nothing to adopt")
            return
        if not options["yes"]:
            self.stdout.write(NOT_DONE)
            return
        self._adopt(epochs, options["reason"])

    def _adopt(self, epochs: Epochs, reason: str) -> None:
        actor = system_actor("adopt_configuration", via=Via.COMMAND)
        with refusals_told():
            done = adopt_configuration(
                actor,
                known=epochs.known,
                reached=epochs.marks,
                restarts=epochs.restarts,
                reason=reason,
            )
        self.stdout.write(
            f"adopted as version {done.revision.version} of lineage {done.revision.lineage}"
        )
        # it was published as it was committed; asking again tells how that went, and takes the word
        # back that somebody is ahead
        if sweep() is not Publication.CURRENT:
            self.stdout.write("not published yet: the sweep does it when the state store answers")
        if done.missing_events:
            self.stdout.write(
                f"{done.missing_events:,} events are waited for; System tells how many stay missing"
            )


def _plan(newer: Newer | None, epochs: Epochs) -> Iterator[str]:
    latest = get_latest_version()
    yield "the database has " + (f"version {latest[1]} of {latest[0]}" if latest else "no version")
    if newer is None:
        yield "nobody is known to hold a newer one"
    else:
        yield f"{words_about(newer)}: version {newer.version} of {newer.lineage}"
        yield "gateways will take the database's configuration in its place"
    if epochs.restarts.pools is None:
        yield (
            "the state store can't tell how often pools were restarted: workers of a pool that was "
            "restarted since the back-up are replaced, one after another"
        )
    held = get_marks()
    lacking = {
        journal: mark - held.get(journal, 0)
        for journal, mark in epochs.marks.items()
        if mark > held.get(journal, 0)
    }
    if lacking:
        yield (
            f"up to {sum(lacking.values()):,} events of {len(lacking)} journals were recorded "
            "after the back-up: gateways send again what their journals still keep, the others "
            "are lost"
        )

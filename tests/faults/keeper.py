"""The fleet that the tests of a process share, and another one once it is beyond help."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import pytest

from controlplane.local.places import tail_of
from tests.faults.fleet import Fleet, Gateway, second_gateway, small_disk
from tests.installation import running_installation
from tests.upstream.fixtures import running_upstream

_LINES = 40
_LOGS = ("console", "gateway", "recorder", "guardian")
_NOT_WELL = (OSError, HTTPException, AssertionError, pytest.fail.Exception)


@dataclass
class Keeper:
    """Starts a fleet when one is asked for, and lets go of one that is not well in time.

    So a mishap fails the test that meets it, with what the processes said last, and no other.
    """

    make_folder: Callable[[str], Path]
    fleet: Fleet | None = None
    _running: ExitStack = field(default_factory=ExitStack)

    def take(self) -> Fleet:
        """The fleet as a test finds it: serving, its ledger told of all that was before."""
        fleet = self.fleet or self._start()
        try:
            assert fleet.installation.process.poll() is None, "its launcher has ended"
            fleet.take_stock()
        except _NOT_WELL as problem:
            told = last_words(fleet.installation.output, fleet.installation.var / "logs")
            pytest.fail(f"the fleet isn't well: {problem!r}{told}{self._given_up()}")
        return fleet

    def _start(self) -> Fleet:
        with ExitStack() as running:
            made = running.enter_context(_fleet(self.make_folder))
            self._running = running.pop_all()
        self.fleet = made
        return made

    def _given_up(self) -> str:
        try:
            self.end()
        except _NOT_WELL as problem:
            return f"\nnor does it end: {problem!r}"
        return ""

    def end(self) -> None:
        """End what runs; whoever asks next has another started."""
        self.fleet = None
        self._running.close()


@contextmanager
def _fleet(make_folder: Callable[[str], Path]) -> Iterator[Fleet]:
    """An installation without an engine, two gateway children, and a second gateway.

    The scripted upstream stands behind the demo route, and the second gateway's folder is on a
    small disk if we are root. The launcher is killed in the end, after its guardian was, and
    nothing outlives that.
    """
    with (
        running_upstream() as upstream,
        running_installation(
            make_folder("faults") / "var",
            DEMO_ENGINE="none",
            DEMO_UPSTREAM_URL=upstream.base_url,
            DEMO_UPSTREAM_KEY="upstream-secret",
            GATEWAY_PROCESSES="2",
            GATEWAY_ID="gw-first",
            end_by=signal.SIGKILL,
        ) as installation,
    ):
        demo = installation.demo
        admin_url = f"http://127.0.0.1:{installation.settings['HEADWORKS_GATEWAY_ADMIN_PORT']}"
        first = Gateway(
            "gw-first", installation.var, demo["GATEWAY_URL"], admin_url, demo["API_KEY"]
        )
        folder = make_folder("f") / "second"
        with small_disk(folder), second_gateway(installation, folder) as (second, link):
            yield Fleet(installation, upstream, (first, second), link)


def last_words(output: Path, logs: Path) -> str:
    """What a launcher and the parts that serve said last."""
    found = [output, *(logs / f"{name}.log" for name in _LOGS)]
    return "".join(f"\n--- {path}\n{tail_of(path, lines=_LINES)}" for path in found)

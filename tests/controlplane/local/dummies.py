"""A launcher whose children are small shell scripts: run as a program, and what tests ask of it."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from controlplane.local.launcher import Child, Launcher, launch
from controlplane.local.launcher_lock import only_launcher
from controlplane.local.places import Places, find_places, make_places
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import (
    GroupRecord,
    Start,
    members_of,
    read_record,
    read_records,
    start_group,
)
from controlplane.local.terminal import Terminal

ROOT = Path(__file__).parents[3]
# Ignores SIGTERM, and so does the grandchild it leaves behind.
STUBBORN = "trap '' TERM; (trap '' TERM; exec sleep 600) & while :; do sleep 0.1; done"
BAD_SETTINGS = 2
_WITHIN_S = 90.0
_POLL_S = 0.02
Found = TypeVar("Found")


def wait_for(find: Callable[[], Found | None], what: str) -> Found:
    """Poll until something true is found, or fail naming it."""
    deadline = time.monotonic() + _WITHIN_S
    while not (found := find()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {_WITHIN_S:.0f} s: {what}")
        time.sleep(_POLL_S)
    return found


def shell_start(places: Places, name: str, kind: str, script: str) -> Start:
    """A shell script as a process to start."""
    return Start(
        name=name,
        kind=kind,
        command=("/bin/sh", "-c", script),
        environment={"PATH": os.environ["PATH"]},
        log=places.log(name),
        folder=places.var,
    )


def running(places: Places) -> Mapping[str, GroupRecord]:
    """The recorded groups of which something lives, by name."""
    return {record.name: record for record in read_records(places.groups) if members_of(record)}


@dataclass(frozen=True, slots=True)
class DummyRun:
    """A launcher with dummy children, as a process of its own."""

    places: Places
    process: subprocess.Popen[str]
    output: Path

    def guardian(self) -> int:
        return int((self.places.run / "guardian.lock").read_text() or 0)

    def shadow(self) -> int:
        """The guardian's shadow, which stands in should launcher and guardian die together.

        A guardian that has just been started starts its own some moments later.
        """
        return wait_for(self._find_shadow, "the guardian's shadow")

    def _find_shadow(self) -> int | None:
        words = (b"--shadow", str(self.places.var).encode())
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(FileNotFoundError, ProcessLookupError):
                if set(words) <= set(path.read_bytes().split(b"\0")):
                    return int(path.parent.name)
        return None

    def record(self, name: str) -> GroupRecord:
        return wait_for(lambda: read_record(self.places.groups, name), f"the record of {name}")

    def said(self, text: str) -> bool:
        return text in self.output.read_text()


def start_dummy(var: Path, scripts: Mapping[str, tuple[str, str]], output: Path) -> DummyRun:
    """Start a launcher with these children: name -> kind, script."""
    with output.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.controlplane.local.dummies", str(var)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            text=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(scripts))
    process.stdin.close()
    return DummyRun(find_places(var), process, output)


@contextmanager
def dummy_run(var: Path, scripts: Mapping[str, tuple[str, str]]) -> Iterator[DummyRun]:
    """A launcher with these children inside the block; nothing of it is left after."""
    run = start_dummy(var, scripts, var.with_suffix(".out"))
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.terminate()
        run.process.wait(_WITHIN_S)
        wait_for(lambda: not running(run.places), "every group to end")


def main(var: Path, scripts: Mapping[str, tuple[str, str]]) -> int:
    """Launch the scripts as children."""
    places = make_places(var)

    async def bring_up(launcher: Launcher) -> None:
        for name, (kind, script) in scripts.items():
            start = shell_start(places, name, kind, script)
            run = partial(start_group, start, places.groups)
            await launcher.keep(Child(name, run, start.log, bad_settings_code=BAD_SETTINGS))
        launcher.terminal.say("all started")

    with only_launcher(places):
        return asyncio.run(launch(places, Terminal(), bring_up))


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), json.load(sys.stdin)))
    except LocalProblem as problem:
        sys.exit(str(problem))

"""The whole suite in its stages: `python -m tests.stages`, as `make test` runs it; or `check`.

An engine loads on one core for most of its stage, so that stage runs beside the quick one, which
takes what the engine leaves. What needs a browser or kills processes has the machine to itself.

What failed for a few causes is tried once more after all else, alone, until one fails again: that
fails the run. What passes is named at the end as unsteady, to be mended. A starved machine may fail
any test once, or all that share what it kept from starting; a fault fails again.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from tests.causes import NOTED

PYTEST = (sys.executable, "-m", "pytest", "-q")
AT_ONCE = ("-n", "4", "--dist")
LESS_URGENT = 5
# More than these have a reason that is no other test's load.
FEW = 10
_AGAIN_S = 600.0
_TESTS_FAILED = 1

# Which marks a file has is read from its text: each process that runs tests collects every file it
# is given, which takes longer for all than for those it needs.
_NOT_QUICK = re.compile(r"^pytestmark = .*mark\.(engine|browser|fault)", re.MULTILINE)
_SLOW = re.compile(r"^pytestmark = .*mark\.slow", re.MULTILINE)
_OF_HARD = re.compile(r"mark\.(browser|fault)")
_OF_ENGINE = re.compile(r"mark\.engine")


def files(is_wanted: Callable[[str], object]) -> list[str]:
    """The test files whose text is wanted."""
    found = sorted(Path(__file__).parent.rglob("test_*.py"))
    return [str(file) for file in found if is_wanted(file.read_text())]


def quick_stage() -> tuple[str, ...]:
    marks = "not engine and not browser and not fault"
    return (*AT_ONCE, "worksteal", "-m", marks, *_without(files(_NOT_QUICK.search)))


def check() -> tuple[str, ...]:
    """What of the quick stage is not slow, for while one writes."""
    left_out = files(lambda text: _NOT_QUICK.search(text) or _SLOW.search(text))
    marks = "not engine and not browser and not fault and not slow"
    few = ("--hypothesis-profile", "quick")
    return ("-n", "3", "--dist", "worksteal", *few, "-m", marks, *_without(left_out))


def _without(left_out: list[str]) -> Iterator[str]:
    """Leave out files, and folders that have no others: pytest would load their fixtures."""
    left = {Path(file) for file in left_out}
    folders = {file.parent for file in left if left.issuperset(file.parent.rglob("test_*.py"))}
    return (f"--ignore={path}" for path in sorted(left | folders))


def hard_stage() -> tuple[str, ...]:
    marks = "(browser or fault) and not engine"
    return (*AT_ONCE, "loadgroup", "-m", marks, *files(_OF_HARD.search))


def engine_stage() -> tuple[str, ...]:
    return ("-m", "engine", *files(_OF_ENGINE.search))


@dataclass(frozen=True, slots=True)
class Stage:
    """Some tests that run as one, and where pytest notes which of them failed."""

    arguments: tuple[str, ...]
    notes: Path

    def command(self) -> list[str]:
        notes = ("-p", "tests.causes", "-o", f"cache_dir={self.notes}")
        return [*PYTEST, *notes, *self.arguments]

    def failed(self) -> dict[str, list[str]]:
        """The tests that failed at the last run, by cause."""
        noted = self.notes / "v" / NOTED
        return dict(json.loads(noted.read_text())) if noted.exists() else {}

    def is_steady(self, code: int, unsteady: list[str]) -> bool:
        """Whether it passed, be it at a second try: then it says which tests needed one."""
        causes = self.failed()
        if code != _TESTS_FAILED or not 0 < len(causes) <= FEW:
            return code == 0
        failed = sorted({test for tests in causes.values() for test in tests})
        _say(f"once more, alone: {', '.join(failed)}")
        again = _run([*PYTEST, "--exitfirst", *failed], within_s=_AGAIN_S)
        if again == 0:
            unsteady += failed
        return again == 0


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["check"]:
            return _run(Stage(check(), Path(folder)).command())
        return _whole(Path(folder))


def _whole(folder: Path) -> int:
    quick = Stage(quick_stage(), folder / "quick")
    engine = Stage(engine_stage(), folder / "engine")
    hard = Stage(hard_stage(), folder / "hard")
    with tempfile.TemporaryFile() as output:
        try:
            with _running(engine.command(), output) as loading:
                codes = {quick: _run(quick.command(), niceness=LESS_URGENT)}
                codes[engine] = loading.wait()
        finally:
            _show(output)
    codes[hard] = _run(hard.command())
    unsteady: list[str] = []
    have_passed = [stage.is_steady(code, unsteady) for stage, code in codes.items()]
    for test in unsteady:
        _say(f"UNSTEADY: {test} failed beside others and passed alone")
    return 0 if all(have_passed) else 1


def _run(command: Sequence[str], *, niceness: int = 0, within_s: float | None = None) -> int:
    """Run with output as it comes, and no longer than told; the exit code."""
    with _running(command, niceness=niceness) as process:
        try:
            return process.wait(within_s)
        except subprocess.TimeoutExpired:
            _say(f"not over within {within_s:.0f} s")
            process.send_signal(signal.SIGINT)
            return process.wait()


@contextmanager
def _running(
    command: Sequence[str], output: IO[bytes] | None = None, *, niceness: int = 0
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has ended after the block; an interrupt of the block is told it, once.

    So it is no part of our group, whose members a terminal interrupts by itself.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output and subprocess.STDOUT,
        preexec_fn=lambda: os.nice(niceness),
        process_group=0,
    )
    try:
        yield process
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        raise
    finally:
        process.wait()  # it takes down what it started


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    _say("")
    shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

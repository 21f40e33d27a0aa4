"""The whole suite in its stages: `python -m tests.stages`, as `make test` runs it; or `check`.

An engine loads on one core for most of its stage, so that stage runs beside the quick one, which
takes what the engine leaves. What needs a browser or kills processes has the machine to itself.

A few failures of a stage are tried once more after all else, alone: what fails again fails the run,
what passes is named at the end as unsteady, to be mended.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

PYTEST = (sys.executable, "-m", "pytest", "-q")
AT_ONCE = ("-n", "4", "--dist")
LESS_URGENT = 5
# More than these have a reason that is no other test's load.
FEW = 5
_TESTS_FAILED = 1

# Which marks a file has is read from its text: each process that runs tests collects every file it
# is given, which takes longer for all than for those it needs.
_NOT_QUICK = re.compile(r"^pytestmark = .*mark\.(engine|browser|fault)", re.MULTILINE)
_SLOW = re.compile(r"^pytestmark = .*mark\.slow", re.MULTILINE)
# What `--dist loadgroup` adds to the name of a test.
_GROUP = re.compile(r"@[\w-]+$")
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
        return [*PYTEST, "-o", f"cache_dir={self.notes}", *self.arguments]

    def run(self, *, niceness: int = 0) -> int:
        """Run with output as it comes; pytest's exit code."""
        running = subprocess.Popen(self.command(), preexec_fn=lambda: os.nice(niceness))
        return _exit_code(running)

    def failed(self) -> list[str]:
        """The tests that failed at the last run."""
        noted = self.notes / "v/cache/lastfailed"
        names = json.loads(noted.read_text()) if noted.exists() else ()
        return sorted(_GROUP.sub("", name) for name in names)

    def is_steady(self, code: int, unsteady: list[str]) -> bool:
        """Whether it passed, be it at a second try: then it says which tests needed one."""
        failed = self.failed()
        if code != _TESTS_FAILED or not 0 < len(failed) <= FEW:
            return code == 0
        _say(f"once more, alone: {', '.join(failed)}")
        again = _exit_code(subprocess.Popen([*PYTEST, *failed]))
        if again == 0:
            unsteady += failed
        return again == 0


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["check"]:
            return Stage(check(), Path(folder)).run()
        return _whole(Path(folder))


def _whole(folder: Path) -> int:
    quick = Stage(quick_stage(), folder / "quick")
    engine = Stage(engine_stage(), folder / "engine")
    hard = Stage(hard_stage(), folder / "hard")
    with tempfile.TemporaryFile() as output:
        loading = subprocess.Popen(
            engine.command(), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            quick_code = quick.run(niceness=LESS_URGENT)
        except KeyboardInterrupt:
            loading.send_signal(signal.SIGINT)
            raise
        finally:
            engine_code = _exit_code(loading)
            _show(output)
    codes = {quick: quick_code, engine: engine_code, hard: hard.run()}
    unsteady: list[str] = []
    have_passed = [stage.is_steady(code, unsteady) for stage, code in codes.items()]
    for test in unsteady:
        _say(f"UNSTEADY: {test} failed beside others and passed alone")
    return 0 if all(have_passed) else 1


def _exit_code(stage: subprocess.Popen[bytes]) -> int:
    try:
        return stage.wait()
    except KeyboardInterrupt:
        stage.wait()  # it had the interrupt too, and takes down what it started
        raise


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stdout.flush()
    shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

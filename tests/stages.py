"""The whole suite in its stages: `python -m tests.stages`, as `make test` runs it; or `check`.

An engine loads on one core for most of its stage, so that stage runs beside the quick one, which
takes what the engine leaves. What needs a browser or kills processes has the machine to itself.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO

PYTEST = (sys.executable, "-m", "pytest", "-q")
AT_ONCE = ("-n", "4", "--dist")
LESS_URGENT = 5

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
    return (*AT_ONCE, "worksteal", *few, "-m", marks, *_without(left_out))


def _without(left_out: list[str]) -> Iterator[str]:
    return (f"--ignore={file}" for file in left_out)


def hard_stage() -> tuple[str, ...]:
    marks = "(browser or fault) and not engine"
    return (*AT_ONCE, "loadgroup", "-m", marks, *files(_OF_HARD.search))


def engine_stage() -> tuple[str, ...]:
    return ("-m", "engine", *files(_OF_ENGINE.search))


def run(arguments: tuple[str, ...], *, niceness: int = 0) -> bool:
    """Run a stage with its output as it comes; whether it passed."""
    stage = subprocess.Popen([*PYTEST, *arguments], preexec_fn=lambda: os.nice(niceness))
    return _ended_well(stage)


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    if sys.argv[1:] == ["check"]:
        return 0 if run(check()) else 1
    with tempfile.TemporaryFile() as output:
        engine = subprocess.Popen(
            [*PYTEST, *engine_stage()],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            has_passed = run(quick_stage(), niceness=LESS_URGENT)
        except KeyboardInterrupt:
            engine.send_signal(signal.SIGINT)
            raise
        finally:
            is_engine_well = _ended_well(engine)
            _show(output)
    return 0 if run(hard_stage()) and has_passed and is_engine_well else 1


def _ended_well(stage: subprocess.Popen[bytes]) -> bool:
    try:
        return stage.wait() == 0
    except KeyboardInterrupt:
        stage.wait()  # it had the interrupt too, and takes down what it started
        raise


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stdout.flush()
    shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.flush()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""The whole suite in its stages: `python -m tests.stages`, as `make test` runs it.

An engine loads on one core for most of its stage, so that stage runs beside the quick one, which
takes what the engine leaves. What needs a browser or kills processes has the machine to itself.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import IO

PYTEST = (sys.executable, "-m", "pytest", "-q")
ENGINE_MARK = "engine"
QUICK = ("-n", "4", "--dist", "worksteal", "-m", "not engine and not browser and not fault")
HARD = ("-n", "4", "--dist", "loadgroup", "-m", "(browser or fault) and not engine")
LESS_URGENT = 5


def engine_stage() -> tuple[str, ...]:
    """Which tests need an engine: to collect all others takes longer than to look for the mark."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    marked = [str(file) for file in files if f"mark.{ENGINE_MARK}" in file.read_text()]
    return ("-m", ENGINE_MARK, *marked)


def run(arguments: tuple[str, ...], *, niceness: int = 0) -> bool:
    """Run a stage with its output as it comes; whether it passed."""
    stage = subprocess.Popen([*PYTEST, *arguments], preexec_fn=lambda: os.nice(niceness))
    return _ended_well(stage)


def main() -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryFile() as output:
        engine = subprocess.Popen(
            [*PYTEST, *engine_stage()],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            has_passed = run(QUICK, niceness=LESS_URGENT)
        except KeyboardInterrupt:
            engine.send_signal(signal.SIGINT)
            raise
        finally:
            is_engine_well = _ended_well(engine)
            _show(output)
    return 0 if run(HARD) and has_passed and is_engine_well else 1


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

"""Whatever is killed first, nothing of an installation outlives it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import Installation, processes_of, start_installation, wait_until

pytestmark = pytest.mark.fault


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Installation]:
    """An installation of its own for a test that ends it."""
    made = start_installation(tmp_path / "var", DEMO_ENGINE="none")
    made.wait_ready(120)
    yield made
    for pid in processes_of(made.var):
        os.kill(pid, signal.SIGKILL)
    made.process.wait(5)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_end_of_the_launcher_ends_everything(
    started: Installation, number: signal.Signals
) -> None:
    started.stop(number)
    assert processes_of(started.var) == {}


def test_a_killed_guardian_is_replaced_and_still_nothing_is_left(started: Installation) -> None:
    guardians = started.find("guardian")
    os.kill(guardians[0], signal.SIGKILL)
    wait_until(lambda: set(started.find("guardian")) - set(guardians), 10, "a new guardian")
    started.stop(signal.SIGKILL)
    assert processes_of(started.var) == {}


@pytest.mark.parametrize("words", [("record_usage",), ("inference", "pools"), ("uvicorn",)])
def test_a_killed_part_is_started_again(started: Installation, words: tuple[str, ...]) -> None:
    first = started.find(*words)
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: set(started.find(*words)) - set(first), 20, f"a new {words}")
    started.stop()

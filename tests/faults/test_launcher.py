"""Whatever is killed first, nothing of an installation outlives it.

The end by SIGTERM is what every installation under test goes through; how each signal is taken is
tested with small children in tests/controlplane/local.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.installation import (
    Installation,
    call_json,
    processes_of,
    start_installation,
    wait_until,
)

pytestmark = pytest.mark.fault

PARTS = (("record_usage",), ("run_feed",), ("inference", "pools"), ("uvicorn",))


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Installation]:
    """An installation of its own for a test that ends it."""
    made = start_installation(tmp_path / "var", DEMO_ENGINE="none", GATEWAY_PROCESSES="1")
    made.wait_ready(120)
    yield made
    for pid in processes_of(made.var):
        os.kill(pid, signal.SIGKILL)
    made.process.wait(5)


def has_another(started: Installation, words: Sequence[str], known: Sequence[int]) -> bool:
    """Whether a process with these words runs that wasn't there before."""
    return bool(set(started.find(*words)) - set(known))


def is_well(started: Installation) -> bool:
    """Whether the status page tells of gateways and of a supervisor that leads."""
    try:
        status = call_json("GET", f"{started.demo['CONSOLE_URL']}/-/status", "none")
    except OSError as refusal:
        if isinstance(refusal, HTTPError):
            refusal.close()
        return False
    states = {part["name"]: part["state"] for part in status["parts"]}
    return (states["gateways"], states["pools"]) == ("ok", "ok")


def test_what_is_killed_is_started_again_and_nothing_outlives_a_killed_launcher(
    started: Installation,
) -> None:
    guardians = started.find("guardian")
    first = {words: started.find(*words) for words in PARTS}
    os.kill(guardians[0], signal.SIGKILL)
    for pids in first.values():
        os.kill(pids[0], signal.SIGKILL)
    wait_until(partial(has_another, started, ("guardian",), guardians), 10, "a new guardian")
    for words, pids in first.items():
        is_back = partial(has_another, started, words, pids)
        wait_until(is_back, 20, f"a new {words}")
    wait_until(partial(is_well, started), 20, "gateways and a leader")
    # the records are written before the processes run, so the new guardian knows them all
    started.stop(signal.SIGKILL)
    assert processes_of(started.var) == {}


def test_an_interrupt_ends_everything(started: Installation) -> None:
    started.stop(signal.SIGINT)
    assert processes_of(started.var) == {}
    assert started.process.returncode == 0

"""Parts that serve no request are killed while streams run on both gateways.

No caller notices, the ledger has every request once, and nothing else is started again.
"""

import os
import signal
import urllib.error
from contextlib import suppress

import pytest

from tests.faults.fleet import Fleet, all_ok, ask_all
from tests.installation import SOON_S, call_json, wait_until

pytestmark = pytest.mark.fault

PARTS = (
    *(("uvicorn",), ("celery", "worker"), ("record_usage",), ("run_feed",)),
    *(("inference pools",), ("guardian",)),
)


def unwell(fleet: Fleet) -> set[str]:
    """What the status page, which needs no part but the console, complains of."""
    try:
        status = call_json("GET", f"{fleet.installation.demo['CONSOLE_URL']}/-/status", "none")
    except OSError as refusal:
        if isinstance(refusal, urllib.error.HTTPError):
            refusal.close()
        return {"console"}
    return {part["name"] for part in status["parts"] if part["state"] != "ok"}


def test_console_jobs_feed_recorder_supervisor_and_guardian_are_killed_and_no_caller_notices(
    fleet: Fleet,
) -> None:
    with fleet.under_load(restarted=PARTS) as streams:
        for words in PARTS:
            fleet.kill(*words)
        expected = ask_all(fleet)
    with suppress(pytest.fail.Exception):
        wait_until(lambda: not unwell(fleet), SOON_S, "a status page with nothing to say")
    assert unwell(fleet) == set()
    fleet.settle(all_ok(streams) | expected)


def test_a_stopped_database_is_noticed_by_no_caller(fleet: Fleet) -> None:
    with fleet.under_load() as streams, fleet.stopped(fleet.service("postgres")):
        expected = ask_all(fleet)
        for one in streams:
            one.wait()
    fleet.settle(all_ok(streams) | expected)


def test_a_killed_database_is_noticed_by_no_caller_and_is_started_again(fleet: Fleet) -> None:
    with fleet.under_load() as streams:
        killed = fleet.service("postgres")[0]
        os.kill(killed, signal.SIGKILL)
        expected = ask_all(fleet)
    fleet.settle(all_ok(streams) | expected)
    assert fleet.service("postgres")[0] != killed

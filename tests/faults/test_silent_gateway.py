"""One of two gateways stands still: pages and API say 1 of 2 and name it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import browser
from tests.installation import ROOT, Installation, free_port, processes_of, wait_until

__all__ = ["browser"]

pytestmark = [pytest.mark.fault, pytest.mark.browser]

SECOND = "gw-second"


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


@contextmanager
def second_gateway(installation: Installation) -> Iterator[list[int]]:
    """A gateway of the same installation under another name; yields the pids of all of it."""
    first = installation.find("inference", "gateway-child")[0]
    environment = {
        **environment_of(first),
        "HEADWORKS_GATEWAY_ID": SECOND,
        "HEADWORKS_GATEWAY_PORT": str(free_port()),
        "HEADWORKS_GATEWAY_PROCESSES": "1",
    }
    before = set(processes_of(installation.var))
    parent = subprocess.Popen(
        [sys.executable, "-m", "inference", "gateway"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def started() -> list[int]:
        new = [
            pid
            for pid, line in processes_of(installation.var).items()
            if pid not in before and "inference gateway" in line
        ]
        return new if len(new) == 2 else []

    try:
        yield wait_until(started, 20, "the second gateway and its child")
    finally:
        for pid in started() or [parent.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        parent.terminate()
        parent.wait(30)


def test_a_gateway_that_stands_still_is_counted_and_named_and_one_that_signs_off_is_not(
    installation: Installation, browser: Browser
) -> None:
    def coverage() -> tuple[int, int, list[str]]:
        told = installation.api("GET", "/live/")["coverage"]
        return told["live"], told["seen"], told["missing"]

    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(installation.demo["CONSOLE_URL"])
    page.get_by_label("User name or e-mail").fill(installation.demo["ADMIN_USER"])
    page.get_by_label("Password").fill(installation.demo["ADMIN_PASSWORD"])
    page.get_by_role("button", name="Sign in").click()
    main = page.locator("main")
    with second_gateway(installation) as pids:
        wait_until(lambda: coverage() == (2, 2, []), 20, "both gateways to report")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: coverage() == (1, 2, [SECOND]), 20, "the silent one to be missed")
        expect(main).to_contain_text("1 of 2 gateways", timeout=10_000)
        expect(main).to_contain_text(SECOND)
        applied = installation.api("GET", "/gateways/")
        assert (applied["applied"], applied["seen"]) == (1, 2)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: coverage() == (2, 2, []), 20, "it to be back")
        page.close()
    wait_until(lambda: coverage() == (1, 1, []), 20, "the one that signed off to be forgotten")

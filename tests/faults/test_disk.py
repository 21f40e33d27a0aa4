"""The disk of one gateway is full."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, Gateway, served
from tests.installation import SOON_S, wait_until

pytestmark = pytest.mark.fault


def fill(folder: Path) -> Path:
    """Take all the room there is."""
    path = folder / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=4k"], capture_output=True, check=False)
    return path


@pytest.fixture
def full(fleet: Fleet) -> Path:
    """The second gateway's folder, on a small disk."""
    folder = fleet.gateways[1].var
    if not os.path.ismount(folder):
        pytest.skip("only root can make a small disk")
    return folder


def policy(fleet: Fleet, accounting: str) -> None:
    """Give the demo's route an accounting policy, and wait until both gateways have it."""
    fleet.change_route(accounting=accounting)
    near, far = fleet.gateways
    wait_until(lambda: len(near.applied() | far.applied()) == 1, SOON_S, "both to have the policy")


def refusal_of(gateway: Gateway) -> str | None:
    """Why a request is refused; None if it isn't."""
    status, _, document = gateway.chat()
    return document["error"]["code"] if status == 503 else None


def test_a_full_disk_refuses_on_a_strict_route_and_serves_on_a_lenient_one(
    fleet: Fleet, full: Path
) -> None:
    near, far = fleet.gateways
    policy(fleet, "strict")
    ballast = fill(full)
    try:
        # the last page of a journal has room for some lines
        refused = wait_until(lambda: refusal_of(far), SOON_S, "a refusal")
        assert refused == "accounting_unavailable"
        assert near.chat()[0] == 200
        policy(fleet, "lenient")
        assert far.chat()[0] == 200
    finally:
        ballast.unlink()
        policy(fleet, "lenient")
    asked = wait_until(lambda: served(far), SOON_S, "the disk to be used again")
    assert fleet.installation.wait_for_request(asked, 20)["outcome"] == "ok"
    assert far.lost() > 0
    fleet.renew(far)

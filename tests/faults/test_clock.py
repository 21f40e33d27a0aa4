"""A gateway whose clock is wrong."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, second_gateway
from tests.installation import SOON_S, wait_until

pytestmark = pytest.mark.fault

AHEAD_S = 7_200
LATE_S = 60

STAYS_S = 4.0
"""A look may be lucky; within this each process writes several times."""

SKEW = f"""import time

_true = time.time
time.time = lambda: _true() + {AHEAD_S}
"""
"""What a Python started with this `sitecustomize` takes for the time."""


def looks_at(fleet: Fleet) -> list[tuple[int, int, list[str]]]:
    """What is told of who reports, time and again for a while, each answer once."""
    ends_at = time.monotonic() + STAYS_S
    found: list[tuple[int, int, list[str]]] = []

    def has_looked() -> bool:
        look = fleet.coverage()
        if look not in found:
            found.append(look)
        return time.monotonic() >= ends_at

    wait_until(has_looked, STAYS_S + 10, "a while")
    return found


def test_a_gateway_two_hours_ahead_serves_and_both_times_are_kept_until_it_signs_off(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SKEW)
    told = {"name": "gw-ahead", "PYTHONPATH": str(tmp_path)}
    with second_gateway(fleet.installation, tmp_path / "ahead", **told) as (ahead, _):
        asked_at = datetime.now(UTC)
        status, event_id, _ = ahead.chat()
        assert status == 200
        row = fleet.installation.wait_for_request(event_id, 20)
        told_s, recorded_s = (
            (datetime.fromisoformat(row[name]) - asked_at).total_seconds()
            for name in ("at", "recorded_at")
        )
        assert 0 <= recorded_s < LATE_S
        assert 0 <= told_s - AHEAD_S < LATE_S
        wait_until(lambda: ahead.held() == 0, SOON_S, "it to let go")
        wait_until(lambda: fleet.coverage() == (3, 3, []), SOON_S, "it to be counted")
        assert looks_at(fleet) == [(3, 3, [])]
    wait_until(lambda: fleet.coverage() == (2, 2, []), SOON_S, "it to be forgotten")

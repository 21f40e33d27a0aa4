"""A gateway whose clock is wrong."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, second_gateway
from tests.installation import wait_until

pytestmark = pytest.mark.fault

AHEAD_S = 7_200
LATE_S = 60

SKEW = f"""import time

_true = time.time
time.time = lambda: _true() + {AHEAD_S}
"""
"""What a Python started with this `sitecustomize` takes for the time."""


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
        wait_until(lambda: ahead.held() == 0, 10, "it to let go")
        wait_until(lambda: fleet.coverage() == (3, 3, []), 10, "it to be counted")
    wait_until(lambda: fleet.coverage() == (2, 2, []), 20, "one that signed off to be forgotten")

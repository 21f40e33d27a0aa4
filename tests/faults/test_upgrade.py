"""The script of the operators' document, as it stands there, on a gateway that serves."""

import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, Gateway
from tests.installation import ROOT, SOON_S

pytestmark = pytest.mark.fault

SCRIPT = re.compile(r"^### Gateways one by one, by a script$.*?^```bash\n(.*?)^```$", re.M | re.S)


def readiness(gateway: Gateway) -> int:
    try:
        with urllib.request.urlopen(f"{gateway.admin_url}/ready", timeout=SOON_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return refusal.code


def test_gateways_are_drained_restarted_and_put_back_by_the_documented_script(
    fleet: Fleet, tmp_path: Path
) -> None:
    found = SCRIPT.search((ROOT / "docs" / "operating.md").read_text())
    assert found is not None
    second = fleet.gateways[1]
    demo = fleet.installation.demo
    restart = tmp_path / "restart"
    told = tmp_path / "told"
    restart.write_text(
        f"#!/bin/sh\necho $1 $(curl -s -o /dev/null -w '%{{http_code}}' {second.admin_url}/ready)"
        f" >> {told}\n"
    )
    restart.chmod(0o755)
    given = {
        **{name: demo[name] for name in ("CONSOLE_URL", "ADMIN_USER", "ADMIN_PASSWORD")},
        "GATEWAYS": second.name,
        "RESTART": str(restart),
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path),
    }

    def run(**changes: str) -> subprocess.CompletedProcess[str]:
        line = ["bash", "-c", found[1]]
        environment = {**given, **changes}
        return subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    refused = run(ADMIN_PASSWORD="wrong")
    assert refused.returncode != 0
    assert not told.exists()
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert told.read_text() == f"{second.name} 503\n"
    assert readiness(second) == 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["restart", "told"]

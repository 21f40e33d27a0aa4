"""The engine's processes themselves: closed to others, measured, adopted by the next supervisor."""

import os
import signal
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.installation import Installation, call_json, processes_of, wait_until

pytestmark = pytest.mark.engine

DEMO_POOL = "smollm2"
ENGINE_BYTES = 1 << 30
"""Server and engine together hold at least this."""
LOOPBACK = "0100007F"


def engine_pids(installation: Installation) -> list[int]:
    """Every process of the engine's group, its API server first."""
    server = installation.find("vllm.entrypoints.openai.api_server")[0]
    group = os.getpgid(server)
    others = [pid for pid in processes_of(installation.var) if os.getpgid(pid) == group]
    return [server, *(pid for pid in others if pid != server)]


def listening_addresses(pids: Iterable[int]) -> set[str]:
    """Local addresses, in the kernel's hexadecimal, of TCP sockets these processes listen on."""
    inodes = {
        os.readlink(link)
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    tables = (Path("/proc/net", name).read_text() for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table.splitlines()]
    return {
        row[1].partition(":")[0]
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in inodes
    }


def pool_of(installation: Installation, name: str = DEMO_POOL) -> Any:
    """A pool as the API tells it, its workers included."""
    pools = installation.api("GET", "/pools/")["results"]
    found = next(one for one in pools if one["name"] == name)
    return installation.api("GET", f"/pools/{found['id']}/")


def test_an_engine_listens_on_loopback_and_answers_nobody_without_its_key(
    installation: Installation, engine_port: int
) -> None:
    pids = engine_pids(installation)
    assert len(pids) > 1
    assert listening_addresses(pids) == {LOOPBACK}
    with pytest.raises(urllib.error.HTTPError) as refusal:
        call_json("GET", f"http://127.0.0.1:{engine_port}/v1/models", installation.demo["API_KEY"])
    refusal.value.close()
    assert refusal.value.code == 401
    command_lines = "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    assert "--api-key" not in command_lines


def test_a_busy_engine_is_measured(installation: Installation, client: openai.OpenAI) -> None:
    pool = pool_of(installation)

    def newest() -> dict[str, Any]:
        live = installation.api("GET", f"/live/?pool={pool['id']}")
        return {
            name: [value for value in values if value is not None][-1]
            for worker in live["workers"]
            for name, values in worker.items()
            if isinstance(values, list) and any(value is not None for value in values)
        }

    with client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "Count from one to a thousand in words."}],
        max_tokens=1_500,
        stream=True,
        extra_body={"ignore_eos": True},
    ):
        seen = wait_until(
            lambda: (found := newest()).get("running") and found, 20, "a busy engine's figures"
        )
    assert seen["utilisation"] > 0
    assert seen["memory_bytes"] > ENGINE_BYTES
    assert {"waiting", "kv_used"} <= set(seen)


def lives_of(installation: Installation) -> list[tuple[str, str, int, str]]:
    """Which workers the pool has and since when; what is in flight there is a second old."""
    return [
        (one["id"], one["state"], one["restarts"], one["changed_at"])
        for one in pool_of(installation)["workers"]
    ]


def test_a_killed_supervisor_leaves_its_engine_and_the_next_one_adopts_it(
    installation: Installation,
) -> None:
    before = lives_of(installation)
    engine, supervisors = engine_pids(installation), installation.find("inference", "pools")
    os.kill(supervisors[0], signal.SIGKILL)
    wait_until(
        lambda: set(installation.find("inference", "pools")) - set(supervisors),
        20,
        "another supervisor",
    )

    def is_led() -> bool:
        status = call_json("GET", f"{installation.demo['CONSOLE_URL']}/-/status", "none")
        return {part["name"]: part["state"] for part in status["parts"]}["pools"] == "ok"

    wait_until(is_led, 20, "a leader")
    assert engine_pids(installation) == engine
    assert lives_of(installation) == before
    assert installation.chat(model="chat", max_tokens=1)

"""What is told at the terminal of processes that the launcher doesn't start itself."""

import asyncio
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest

from controlplane.local import news
from controlplane.local.news import Gains, GatewayNews, WorkerNews, tell_news
from controlplane.local.places import make_places
from controlplane.local.terminal import Terminal
from tests.controlplane.local.dummies import wait_for

LOG = Path("/var/x.log")


def died(slot: int) -> dict[str, object]:
    return {"event": "gateway process died", "slot": slot, "code": -9, "restart_in_s": 0.5}


def accepts(slot: int) -> dict[str, object]:
    return {"event": "accepting requests", "process": f"gateway-child/{slot}"}


def changed(state: str, detail: str | None = None) -> dict[str, object]:
    return {"event": "worker changed", "worker_id": "pool_a-0", "state": state, "detail": detail}


def test_a_gateway_process_is_told_when_it_ends_and_when_it_is_back() -> None:
    teller = GatewayNews(LOG)
    lines = (accepts(0), accepts(1), died(1), accepts(0), accepts(1), accepts(1))
    assert [told for line in lines if (told := teller.tell(line))] == [
        f"gateway process 1 ended (-9); again in 0.5 s; log: {LOG}",
        "gateway process 1 is back",
    ]


def test_a_worker_is_told_when_it_fails_and_when_it_is_back_and_not_when_it_is_drained() -> None:
    teller = WorkerNews(LOG)
    planned = (changed("starting"), changed("ready"), changed("draining"), changed("ended"))
    assert [teller.tell(line) for line in planned] == [None] * 4
    lost = (changed("backing_off", "killed"), changed("starting"), changed("ready"))
    assert [told for line in lost if (told := teller.tell(line))] == [
        f"worker pool_a-0 backing off: killed; log: {LOG}",
        "worker pool_a-0 is back",
    ]


def test_a_log_is_read_on_by_whole_lines_and_from_anew_once_it_was_set_aside(
    tmp_path: Path,
) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("before\n")
    gains = Gains(log)
    with log.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert gains.take() == [b"one"]
        file.write("o\n")
    assert gains.take() == [b"two"]
    log.unlink()
    assert gains.take() == []
    log.write_text("three\n")
    assert gains.take() == [b"three"]


async def test_what_keepers_write_reaches_the_terminal_and_what_is_no_line_of_theirs_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "PERIOD_S", 0.01)
    places, out = make_places(tmp_path / "var"), io.StringIO()
    telling = asyncio.create_task(tell_news(places, Terminal(out)))
    await asyncio.sleep(0)
    lines = (json.dumps(died(0)), "{broken", "[]", json.dumps({"event": 7}), json.dumps(accepts(0)))
    places.log("gateway").write_text("".join(f"{line}\n" for line in lines))
    places.log("pools").write_text(json.dumps(changed("failed")) + "\n")
    await asyncio.to_thread(wait_for, lambda: "worker" in out.getvalue(), "the worker's line")
    telling.cancel()
    with suppress(asyncio.CancelledError):
        await telling
    told = [line.partition("] ")[2].partition(";")[0] for line in out.getvalue().splitlines()]
    assert told == [
        "gateway process 0 ended (-9)",
        "gateway process 0 is back",
        "worker pool_a-0 failed",
    ]

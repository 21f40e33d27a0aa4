"""kill -9 of one gateway child while streams run."""

import json
import os
import signal
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from inference.contract.codec import decode_opening
from tests.installation import Installation, wait_until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

STREAMS = 20
FRAMES = 30


@dataclass
class Stream:
    """One streaming request on a socket of its own, read to its end in a thread."""

    installation: Installation
    received: bytes = b""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        address = urlsplit(self.installation.demo["GATEWAY_URL"])
        body = json.dumps(
            {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        ).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address.netloc}\r\n"
            f"authorization: Bearer {self.installation.demo['API_KEY']}\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        with socket.create_connection((address.hostname, address.port), timeout=30) as wire:
            wire.sendall(head + body)
            try:
                while data := wire.recv(65_536):
                    self.received += data
            except ConnectionResetError:
                return

    @property
    def has_begun(self) -> bool:
        return b"one" in self.received

    @property
    def is_whole(self) -> bool:
        return b"data: [DONE]" in self.received

    @property
    def event_id(self) -> str:
        head = self.received.partition(b"\r\n\r\n")[0].decode().lower()
        line = next(line for line in head.split("\r\n") if line.startswith("x-request-id:"))
        return line.partition(":")[2].strip()


def open_files(pid: int) -> int:
    """How many files and sockets a process holds: most for the one with most streams."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def journalled_openings(installation: Installation) -> set[str]:
    """The ids of all requests whose opening stands in a journal."""
    lines = (
        line
        for segment in installation.var.glob("journals/*/*.jnl")
        for line in segment.read_bytes().splitlines()
    )
    return {decode_opening(line[2:]).event_id for line in lines if line.startswith(b"O ")}


def test_a_killed_child_breaks_its_own_streams_alone_and_the_ledger_has_every_opening(
    installation: Installation, engineless_upstream: Upstream
) -> None:
    words = " ".join(["one"] * FRAMES)
    engineless_upstream.reset()
    engineless_upstream.play(Behaviour(text=words, gap_ms=100))
    streams = [Stream(installation) for _ in range(STREAMS)]
    wait_until(lambda: all(one.has_begun for one in streams), 20, "all streams to run")
    openings = journalled_openings(installation)
    assert openings == {one.event_id for one in streams}
    children = installation.find("inference", "gateway-child")
    assert len(children) == 2
    killed = max(children, key=open_files)
    os.kill(killed, signal.SIGKILL)
    for one in streams:
        one.thread.join(30)
    broken = {one.event_id for one in streams if not one.is_whole}
    whole = {one.event_id for one in streams if one.is_whole}
    assert broken

    def rows() -> dict[str, dict[str, object]]:
        results = installation.api("GET", "/requests/?page_size=100")["results"]
        return {str(row["id"]): row for row in results}

    wait_until(lambda: set(rows()) == openings, 30, "a ledger row for every opening, and no other")
    outcomes = {name: (row["outcome"], row["completion_tokens"]) for name, row in rows().items()}
    assert outcomes == {
        **dict.fromkeys(whole, ("ok", FRAMES)),
        **dict.fromkeys(broken, ("lost_gateway", None)),
    }
    wait_until(lambda: engineless_upstream.report().open_calls == 0, 10, "no call left open")
    wait_until(
        lambda: len(set(installation.find("inference", "gateway-child")) - {killed}) == 2,
        20,
        "a new child",
    )
    engineless_upstream.play(Behaviour())
    assert installation.chat(model="chat")[1]["usage"]["completion_tokens"] == 5

"""kill -9 of one gateway child while streams run."""

import json
import os
import signal
import socket
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

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


def test_a_killed_child_breaks_its_own_streams_alone_and_the_ledger_has_every_opening(
    installation: Installation, engineless_upstream: Upstream
) -> None:
    words = " ".join(["one"] * FRAMES)
    engineless_upstream.reset()
    engineless_upstream.play(Behaviour(text=words, gap_ms=100))
    streams = [Stream(installation) for _ in range(STREAMS)]
    wait_until(lambda: all(one.has_begun for one in streams), 20, "all streams to run")
    children = installation.find("inference", "gateway-child")
    assert len(children) == 2
    os.kill(children[0], signal.SIGKILL)
    for one in streams:
        one.thread.join(30)
    broken = {one.event_id.upper() for one in streams if not one.is_whole}
    whole = {one.event_id.upper() for one in streams if one.is_whole}
    assert 0 < len(broken) < STREAMS

    def rows() -> dict[str, dict[str, object]]:
        results = installation.api("GET", "/requests/?page_size=100")["results"]
        known = {str(row["id"]).upper(): row for row in results}
        return {name: known[name] for name in broken | whole if name in known}

    wait_until(lambda: len(rows()) == STREAMS, 30, "a ledger row for every stream")
    outcomes = {name: row["outcome"] for name, row in rows().items()}
    assert {outcomes[name] for name in whole} == {"ok"}
    assert {outcomes[name] for name in broken} == {"lost_gateway"}
    assert {row["completion_tokens"] for name, row in rows().items() if name in whole} == {FRAMES}
    assert {row["completion_tokens"] for name, row in rows().items() if name in broken} == {None}
    wait_until(lambda: engineless_upstream.report().open_calls == 0, 10, "no call left open")
    wait_until(
        lambda: len(set(installation.find("inference", "gateway-child")) - {children[0]}) == 2,
        20,
        "a new child",
    )
    engineless_upstream.play(Behaviour())
    assert installation.chat(model="chat")[1]["usage"]["completion_tokens"] == 5

"""Fixtures that start upstream processes and steer them."""

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from tests.upstream.script import Behaviour, Call, Report

POLL_S = 0.01
_SOON_S = 60.0


class Upstream:
    """A running upstream. Every method is one short call over loopback."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, *behaviours: Behaviour) -> None:
        """Answer by these behaviours in turn; the last one stays."""
        self._send("PUT", "/-/script", msgspec.json.encode(behaviours))

    def reset(self) -> None:
        """Forget script and calls."""
        self._send("POST", "/-/reset")

    def report(self) -> Report:
        return msgspec.json.decode(self._send("GET", "/-/report"), type=Report)

    @property
    def calls(self) -> list[Call]:
        return self.report().calls

    def wait_for(self, condition: Callable[[Report], bool], within_s: float = _SOON_S) -> Report:
        """Poll until the condition holds, ever more rarely, or fail with the last report."""
        began = time.monotonic()
        while not condition(report := self.report()):
            waited_s = time.monotonic() - began
            if waited_s > within_s:
                pytest.fail(f"not within {within_s} s: {report}")
            time.sleep(max(POLL_S, min(waited_s / 8, 0.25)))
        return report

    def _send(self, method: str, path: str, body: bytes = b"") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SOON_S)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def running_upstream(*options: str) -> Iterator[Upstream]:
    """Start an upstream process and end it again; options are those of its command line."""
    argv = [sys.executable, "-m", "tests.upstream.server", *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Upstream(int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def _upstreams() -> Iterator[tuple[Upstream, Upstream]]:
    with ExitStack() as stack:
        first = stack.enter_context(running_upstream())
        yield first, stack.enter_context(running_upstream())


@pytest.fixture
def upstream(_upstreams: tuple[Upstream, Upstream]) -> Upstream:
    """The first scripted upstream, with nothing on record."""
    _upstreams[0].reset()
    return _upstreams[0]


@pytest.fixture
def other_upstream(_upstreams: tuple[Upstream, Upstream]) -> Upstream:
    """A second one, for routes with two targets."""
    _upstreams[1].reset()
    return _upstreams[1]

"""One installation with a real engine, shared by the tests of a run."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TypeVar

import openai
import pytest

from tests.inference.gateway.receiver import Receiver, running_receiver
from tests.installation import Installation, start_installation, wait_until

PORTS = ("CONSOLE_PORT", "GATEWAY_PORT", "GATEWAY_ADMIN_PORT")
RECEIVERS_SECRET = "canary-of-the-receiver"
FIRST_START_S = 600
FIRST_ANSWER_S = 300
"""By then the second start of an installation has answered a request; alone, in half a minute."""


T = TypeVar("T")


@dataclass
class Restarted(Installation):
    """An installation at its second start: how long that took to its first answer.

    `kept` says whether it has the secrets of the first start.
    """

    first_answer_s: float = 0.0
    kept: bool = False


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """Who is sent the spans of the installation and of its engines: of requests that ask for it."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    serving = running_receiver()

    def run(step: Awaitable[T]) -> T:
        return asyncio.run_coroutine_threadsafe(_awaited(step), loop).result(10)

    try:
        yield run(serving.__aenter__())
        run(serving.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _awaited(step: Awaitable[T]) -> T:
    return await step


@pytest.fixture(scope="session")
def installation(
    receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Restarted]:
    """An installation whose demo pool is a real vLLM, interrupted when that began to load.

    It was started again then, and is ended by an interrupt unless a test has killed it.
    """
    var: Path = tmp_path_factory.mktemp("first-light") / "var"
    traces = {
        "OTLP_ENDPOINT": receiver.url,
        "OTLP_HEADERS": f"x-key={RECEIVERS_SECRET}",
        "TRACE_RATIO": "0",
        "TRACE_TRUST": "1",
        "TRACE_ENGINES": "1",
    }
    first = start_installation(var, DEMO_ENGINE="vllm", **traces)
    try:
        wait_until(
            lambda: _is_half_up(first), FIRST_START_S, "the first start to get to its engine"
        )
    finally:
        first.stop(signal.SIGINT)
    assert first.process.returncode == 0
    secrets = _secrets(var)
    started = time.monotonic()
    ports = {name: first.settings[f"HEADWORKS_{name}"] for name in PORTS}
    first.output.write_text("")
    again = start_installation(var, DEMO_ENGINE="vllm", **ports, **traces)
    running = Restarted(again.var, again.process, again.output, again.settings)
    try:
        running.wait_ready(FIRST_START_S)
        running.chat(model="chat", max_tokens=1)
        running.first_answer_s = time.monotonic() - started
        running.kept = _secrets(var) == secrets
        yield running
    finally:
        if running.process.poll() is None:
            running.stop(signal.SIGINT)
    assert running.process.returncode in (0, -signal.SIGKILL)


def _secrets(var: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (var / "secrets").iterdir()}


def _is_half_up(installation: Installation) -> bool:
    """Whether all is there but an engine that has loaded."""
    if installation.process.poll() is not None:
        pytest.fail(f"the installation did not start:\n{installation.output.read_text()}")
    is_loading = bool(installation.find("vllm.entrypoints.openai.api_server"))
    return is_loading and "gateways: up" in installation.output.read_text()


@pytest.fixture
def client(installation: Installation) -> Iterator[openai.OpenAI]:
    """The official client, pointed at the gateway with the demo key."""
    base_url = f"{installation.demo['GATEWAY_URL']}/v1"
    with openai.OpenAI(base_url=base_url, api_key=installation.demo["API_KEY"]) as made:
        yield made


@pytest.fixture
def engine_port(installation: Installation) -> int:
    """The port the engine's own server listens on."""
    return port_of(installation)


def port_of(installation: Installation, *words: str) -> int:
    """The port of the first engine with these words in its command line."""
    pids = wait_until(
        lambda: installation.find("vllm.entrypoints.openai.api_server", *words), 60, "an engine"
    )
    told = Path(f"/proc/{pids[0]}/cmdline").read_bytes().split(b"\0")
    return int(told[told.index(b"--port") + 1])

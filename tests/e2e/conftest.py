"""One installation with a real engine, shared by the tests of a run."""

import signal
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.installation import Installation, start_installation, wait_until

ENGINE_START_S = 600


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A running installation whose demo pool is a real vLLM; an interrupt ends all of it."""
    var: Path = tmp_path_factory.mktemp("first-light") / "var"
    running = start_installation(var, DEMO_ENGINE="vllm")
    try:
        running.wait_ready(ENGINE_START_S)
        yield running
    finally:
        if running.process.poll() is None:
            running.stop(signal.SIGINT)
    assert running.process.returncode == 0


@pytest.fixture
def client(installation: Installation) -> Iterator[openai.OpenAI]:
    """The official client, pointed at the gateway with the demo key."""
    base_url = f"{installation.demo['GATEWAY_URL']}/v1"
    with openai.OpenAI(base_url=base_url, api_key=installation.demo["API_KEY"]) as made:
        yield made


@pytest.fixture
def engine_port(installation: Installation) -> int:
    """The port the engine's own server listens on."""
    pids = wait_until(
        lambda: installation.find("vllm.entrypoints.openai.api_server"), 60, "an engine"
    )
    words = Path(f"/proc/{pids[0]}/cmdline").read_bytes().split(b"\0")
    return int(words[words.index(b"--port") + 1])

"""What is left when an engine, and then all of an installation with one, is stopped or killed."""

import signal

import openai
import pytest

from tests.e2e.test_engine import pool_of
from tests.installation import Installation, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.fault]

LONG_TOKENS = 100


def test_a_stopped_pool_lets_its_stream_finish_and_then_ends_its_engine(
    installation: Installation, client: openai.OpenAI
) -> None:
    path = f"/pools/{pool_of(installation)['id']}/"
    stream = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "Count from one to a thousand in words."}],
        max_tokens=LONG_TOKENS,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    chunks = [next(iter(stream))]
    installation.api("PATCH", path, {"power": "stopped"})
    chunks += list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert len([one for one in chunks if one.choices[0].delta.content]) > LONG_TOKENS / 2
    wait_until(lambda: not installation.find("vllm"), 30, "the engine's group to end")
    records = installation.var / "run" / "groups"
    wait_until(lambda: not list(records.glob("worker-*")), 10, "its record to go")
    installation.api("PATCH", path, {"power": "running"})


def test_a_killed_launcher_leaves_nothing_of_an_engine_that_loads(
    installation: Installation,
) -> None:
    wait_until(lambda: installation.find("vllm.entrypoints.openai.api_server"), 60, "an engine")
    installation.stop(signal.SIGKILL)
    assert installation.process.returncode == -signal.SIGKILL

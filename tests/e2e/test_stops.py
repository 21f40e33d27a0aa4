"""What is left, and what comes back, when parts of an installation with an engine are killed."""

import os
import signal
import time

import openai
import pytest

from tests.e2e.test_engine import pool_of
from tests.installation import Installation, processes_of, start_installation, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.fault]

FIRST_ANSWER_S = 60
LONG_TOKENS = 200


def test_a_killed_engine_server_leaves_no_engine_core_and_the_pool_comes_back(
    installation: Installation,
) -> None:
    servers = installation.find("vllm.entrypoints.openai.api_server")
    group = os.getpgid(servers[0])
    cores = [pid for pid in processes_of(installation.var) if os.getpgid(pid) == group]
    os.kill(servers[0], signal.SIGKILL)
    wait_until(lambda: not set(cores) & set(processes_of(installation.var)), 20, "the group to end")

    def answered() -> bool:
        try:
            return bool(installation.chat(model="chat", max_tokens=1))
        except OSError:
            return False

    wait_until(answered, 180, "the pool to be ready again")


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


def test_a_second_start_answers_within_a_minute_and_a_killed_launcher_leaves_nothing(
    installation: Installation,
) -> None:
    installation.stop(signal.SIGINT)
    started = time.monotonic()
    again = start_installation(
        installation.var,
        DEMO_ENGINE="vllm",
        CONSOLE_PORT=installation.settings["HEADWORKS_CONSOLE_PORT"],
        GATEWAY_PORT=installation.settings["HEADWORKS_GATEWAY_PORT"],
        GATEWAY_ADMIN_PORT=installation.settings["HEADWORKS_GATEWAY_ADMIN_PORT"],
    )
    again.output.write_text("")
    again.wait_ready(FIRST_ANSWER_S)
    again.chat(model="chat", max_tokens=1)
    assert time.monotonic() - started < FIRST_ANSWER_S
    assert again.demo == installation.demo
    os.kill(again.process.pid, signal.SIGKILL)
    again.process.wait(5)
    wait_until(lambda: not processes_of(again.var), 40, "everything to end")

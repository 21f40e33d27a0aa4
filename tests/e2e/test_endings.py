"""What is left, and what comes back, when parts of an installation with an engine are killed."""

import os
import signal
import time

import pytest

from tests.installation import Installation, processes_of, start_installation, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.fault]

FIRST_ANSWER_S = 60


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
    )
    again.output.write_text("")
    again.wait_ready(FIRST_ANSWER_S)
    again.chat(model="chat", max_tokens=1)
    assert time.monotonic() - started < FIRST_ANSWER_S
    assert again.demo == installation.demo
    os.kill(again.process.pid, signal.SIGKILL)
    again.process.wait(5)
    wait_until(lambda: not processes_of(again.var), 40, "everything to end")

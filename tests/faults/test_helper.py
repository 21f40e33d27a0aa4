"""The helper killed, frozen and missing, in a whole installation: nobody waits for it."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inference.helper.client import LATE_IN_ROW, HelperClient
from inference.helper.messages import Nearest, SemanticEntry, SemanticQuery
from tests.faults.fleet import environment_of
from tests.inference.helper.lines import calling
from tests.inference.stores import until
from tests.installation import Installation, processes_of, running_installation, wait_until

pytestmark = pytest.mark.fault

HELPER = ("inference helper",)
PATIENT_S = 5.0
HASTY_S = 0.3
QUESTION = "How do I reset my password?"
REWORDED = "Please tell me how to reset my password"


@contextmanager
def installed(var: Path, **settings: str) -> Iterator[Installation]:
    told = {"DEMO_ENGINE": "none", "GATEWAY_PROCESSES": "1", "HELPER": "on", **settings}
    with running_installation(var, **told) as running:
        yield running


def pid_of_helper(var: Path) -> int | None:
    found = [pid for pid, line in processes_of(var).items() if HELPER[0] in line]
    return found[0] if found else None


def entry(text: str, key: bytes) -> SemanticEntry:
    return SemanticEntry(b"partition", text, key, time.time() + 3600)


async def ask(client: HelperClient, text: str) -> Nearest | None:
    return await client.nearest(SemanticQuery(b"partition", text, 0.8))


async def test_a_killed_helper_is_started_again_with_what_it_knew_and_a_frozen_one_costs_little(
    tmp_path: Path,
) -> None:
    with installed(tmp_path / "var") as running:
        (gateway,) = running.find("gateway-child")
        socket = Path(environment_of(gateway)["HEADWORKS_HELPER_SOCKET"])
        async with calling(socket, deadline_s=PATIENT_S) as client:
            await until(lambda: client.is_up, "the helper to be up")
            client.remember(entry(QUESTION, b"password"))

            async def is_found() -> bool:
                found = await ask(client, REWORDED)
                return found is not None and found.key == b"password"

            await until(is_found, "what was told to be found in other words")
            refused = await ask(client, "How do I not reset my password?")
            assert refused is not None
            assert (refused.key, refused.refused_by) == (None, "negation")
            # told to the store within a second, as the next helper needs it
            await asyncio.sleep(2)

            first = pid_of_helper(running.var)
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await until(lambda: not client.is_up, "its end to be noticed")
            assert await ask(client, REWORDED) is None
            wait_until(lambda: pid_of_helper(running.var) not in (None, first), 60, "another")
            await until(is_found, "the next helper to know what the first did")

        async with calling(socket, deadline_s=HASTY_S) as hasty:
            await until(lambda: hasty.is_up, "it to be in time")
            second = pid_of_helper(running.var)
            assert second is not None
            late = hasty.counts.late
            os.kill(second, signal.SIGSTOP)
            try:
                began = time.monotonic()
                for _ in range(500):
                    assert await ask(hasty, REWORDED) is None
                assert time.monotonic() - began < 10 * LATE_IN_ROW * HASTY_S + 5
                assert hasty.counts.late - late <= LATE_IN_ROW
            finally:
                os.kill(second, signal.SIGCONT)
            await until(lambda: hasty.is_up, "it to be trusted again")
    assert "helper ended (-9)" in running.output.read_text()


def test_without_a_model_all_else_is_up_and_it_is_said(tmp_path: Path) -> None:
    with installed(tmp_path / "var", HELPER_MODEL=str(tmp_path / "nothing")) as running:
        wait_until(lambda: "semantic cache: off" in running.output.read_text(), 60, "it to be said")
        assert pid_of_helper(running.var) is None
        assert running.api("GET", "/pools/")

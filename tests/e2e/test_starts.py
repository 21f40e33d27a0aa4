"""Engines that start side by side: another pool's, and one in the place of a killed one."""

import os
import signal
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.conftest import port_of
from tests.e2e.departures import AT_ONCE, check_departures
from tests.e2e.scores import check_scores
from tests.e2e.test_engine import DEMO_POOL, pool_of
from tests.installation import Installation, processes_of, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.fault]

EMBEDDING_POOL = "all-minilm-l6-v2"
DIMENSIONS = 384
START_S = 400.0
LOOK_S = 0.5
"""An engine loads for half a minute; to look more often would only slow it down."""
SERVER = "vllm.entrypoints.openai.api_server"
SERVED_MODELS = {DEMO_POOL: "smollm2-135m-instruct", EMBEDDING_POOL: "all-minilm-l6-v2"}


@pytest.fixture(scope="module")
def embedding_pool(installation: Installation) -> Iterator[str]:
    """The API's path of the pool for embeddings, which was stopped, starts, and is stopped again.

    It loads while the tests before the one that needs it are at work.
    """
    pool = pool_of(installation, EMBEDDING_POOL)
    assert pool["power"] == "stopped"
    path, arguments = f"/pools/{pool['id']}/", pool["engine_arguments"]
    few = {**arguments, "max_num_seqs": AT_ONCE}
    installation.api("PATCH", path, {"power": "running", "engine_arguments": few})
    try:
        yield path
    finally:
        installation.api("PATCH", path, {"power": "stopped", "engine_arguments": arguments})

        def is_gone() -> bool:
            return not installation.find(SERVER, SERVED_MODELS[EMBEDDING_POOL])

        wait_until(is_gone, 60, "the embedding engine to end")


@pytest.mark.usefixtures("embedding_pool")
def test_a_killed_engine_server_leaves_no_engine_core_and_the_pool_comes_back(
    installation: Installation,
) -> None:
    server = installation.find(SERVER, SERVED_MODELS[DEMO_POOL])[0]
    group = os.getpgid(server)
    cores = {pid for pid in processes_of(installation.var) if os.getpgid(pid) == group}
    assert len(cores) > 1
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not cores & set(processes_of(installation.var)), 20, "the group to end")

    def answered() -> bool:
        try:
            return bool(installation.chat(model="chat", max_tokens=1))
        except OSError:
            return False

    wait_until(answered, START_S, "the pool to be ready again", every_s=LOOK_S)


def test_the_embedding_pool_is_started_serves_and_is_stopped_again(
    installation: Installation, client: openai.OpenAI, embedding_pool: str
) -> None:
    def is_ready() -> bool:
        workers = installation.api("GET", embedding_pool)["workers"]
        return [one["state"] for one in workers] == ["ready"]

    wait_until(is_ready, START_S, "the embedding engine", every_s=LOOK_S)
    raw = client.embeddings.with_raw_response.create(
        model="embed", input=["water", "a long way to the sea"]
    )
    answer = raw.parse()
    assert [len(one.embedding) for one in answer.data] == [DIMENSIONS] * 2
    plain = client.embeddings.create(model="embed", input="water", encoding_format="float")
    assert plain.data[0].embedding == pytest.approx(answer.data[0].embedding, abs=0.02)
    row = installation.wait_for_request(raw.headers["x-request-id"])
    assert (row["endpoint"], row["pool_name"]) == ("embeddings", EMBEDDING_POOL)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (answer.usage.prompt_tokens, 0)
    assert [one["kind"] for one in row["charges"]] == ["final"]
    check_scores(installation, client)
    check_departures(installation, port_of(installation, SERVED_MODELS[EMBEDDING_POOL]))
    with pytest.raises(openai.BadRequestError, match="not /v1/chat/completions") as refusal:
        client.chat.completions.create(
            model="embed", messages=[{"role": "user", "content": "hello"}]
        )
    assert refusal.value.param == "model"

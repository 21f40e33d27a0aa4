"""A client that leaves stops the engine, by the engine's own word, on every endpoint."""

import http.client
import json
import time
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.test_answers import engine_counter
from tests.installation import SOON_S, Installation, wait_until

pytestmark = pytest.mark.engine

STOPPED_S = 2.5
LOADED_S = 30.0
"""No try takes longer on a busy machine; the best of `TRIES` is within `STOPPED_S`."""
TRIES = 3
GENERATED = 3
MAXIMUM = 1_500
TASK = "Count from one to a thousand in words."
MESSAGES = [{"role": "user", "content": TASK}]
CALLS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": MAXIMUM, "ignore_eos": True},
    "/v1/completions": {"prompt": TASK, "max_tokens": MAXIMUM, "ignore_eos": True},
    "/v1/responses": {"input": TASK, "max_output_tokens": MAXIMUM, "ignore_eos": True},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": MAXIMUM},
}


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", CALLS)
def test_a_client_that_leaves_stops_the_engine_at_once(
    installation: Installation, engine_port: int, path: str, is_stream: bool
) -> None:
    def generated() -> float:
        return engine_counter(engine_port, "vllm:generation_tokens_total")

    def running() -> float:
        return engine_counter(engine_port, "vllm:num_requests_running")

    def leave() -> float | None:
        """How many seconds the engine goes on once a client has left; None if it was done."""
        wait_until(lambda: running() == 0, SOON_S, "an idle engine")
        before = generated()
        with closing(http.client.HTTPConnection(gateway.hostname or "", gateway.port)) as caller:
            caller.request("POST", path, body, headers)
            wait_until(lambda: generated() - before >= GENERATED, SOON_S, "the engine to run")
            if not running():
                return None  # the model had no more to say: this endpoint can't make it go on
        left = time.monotonic()
        wait_until(lambda: running() == 0, SOON_S, "the engine to stop")
        took_s = time.monotonic() - left
        assert generated() - before < MAXIMUM / 10
        return took_s

    gateway = urlsplit(installation.demo["GATEWAY_URL"])
    headers = {
        "authorization": f"Bearer {installation.demo['API_KEY']}",
        "content-type": "application/json",
    }
    body = json.dumps({"model": "chat", "stream": is_stream, **CALLS[path]})
    tries = [leave() for _ in range(TRIES)]
    took_s = sorted(one for one in tries if one is not None)
    # beside other tests an engine's step may wait for a core, so not every try is as quick
    assert took_s, "the model was done before its client left"
    assert took_s[0] < STOPPED_S, took_s
    assert took_s[-1] < LOADED_S, took_s

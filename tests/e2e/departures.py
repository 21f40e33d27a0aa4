"""A client of an engine for embeddings that leaves: the engine stops, whatever it was asked."""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.test_answers import engine_counter
from tests.e2e.test_leaving import LOADED_S, STOPPED_S, TRIES
from tests.installation import Installation, wait_until

INPUTS = 400
"""One would be done before anybody could leave. A step of the engine ends before it stops, so it is
to take `AT_ONCE` of them only."""
AT_ONCE = 2
MANY = [f"{number}: A spring in the hills feeds the river." for number in range(INPUTS)]
CALLS: Mapping[str, Mapping[str, Any]] = {
    "/v1/embeddings": {"input": MANY},
    "/v1/rerank": {"query": "Where does the water come from?", "documents": MANY},
    "/v1/score": {"text_1": "Where does the water come from?", "text_2": MANY},
}


def check_departures(installation: Installation, port: int) -> None:
    """Leave each endpoint of the route `embed`, whose engine listens on this port, in its work."""
    for path, fields in CALLS.items():
        body = json.dumps({"model": "embed", **fields}).encode()
        tries = [_leave(installation, port, path, body) for _ in range(TRIES)]
        took_s = sorted(one for one in tries if one is not None)
        # beside other tests an engine's step may wait for a core, so not every try is as quick
        assert took_s, f"{path} was done before its client left"
        assert took_s[0] < STOPPED_S, (path, took_s)
        assert took_s[-1] < LOADED_S, (path, took_s)


def _leave(installation: Installation, port: int, path: str, body: bytes) -> float | None:
    """How many seconds the engine goes on once a client has left; None if it was done."""

    def under_way() -> float:
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
        return sum(engine_counter(port, name) for name in names)

    def done() -> float:
        return engine_counter(port, "vllm:request_success_total")

    gateway = urlsplit(installation.demo["GATEWAY_URL"])
    headers = {
        "authorization": f"Bearer {installation.demo['API_KEY']}",
        "content-type": "application/json",
    }
    wait_until(lambda: under_way() == 0, 10, "an idle engine")
    before = done()
    with closing(http.client.HTTPConnection(gateway.hostname or "", gateway.port)) as caller:
        caller.request("POST", path, body, headers)
        # a step tells what waits when it began: the first knows of one input only
        wait_until(lambda: under_way() or done() - before >= INPUTS, 30, "the engine to be at work")
        if done() - before >= INPUTS:
            return None
    left = time.monotonic()
    wait_until(lambda: under_way() == 0, 10, "the engine to stop")
    took_s = time.monotonic() - left
    assert done() - before < INPUTS
    return took_s

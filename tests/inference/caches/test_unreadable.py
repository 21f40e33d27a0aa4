"""Answers like none that their dialect has: passed on as they came, and kept by nobody."""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.inference.caches.rig import POLICY, cached_configuration, caching_gateway
from tests.inference.caches.test_exact import cache
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import pool_record
from tests.inference.workers.server import answering, serving
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

MESSAGE = {"role": "assistant", "content": "one"}
GOOD = {"index": 0, "message": MESSAGE, "finish_reason": "stop"}
NO_INDEX = {"message": MESSAGE, "finish_reason": "stop"}
NO_MESSAGE = {"index": 0, "finish_reason": "stop"}


DIGITS = "1" * 5_000
"""More than a number may have."""
BROKEN = b"\xff"
"""No character."""


def whole(*choices: object) -> str:
    return json.dumps({"id": "c1", "choices": choices})


@pytest.mark.parametrize(
    "body",
    [
        whole(NO_INDEX),
        whole(NO_MESSAGE),
        whole({**NO_MESSAGE, "message": "one"}),
        whole("one"),
        whole({**NO_MESSAGE, "message": {**MESSAGE, "tool_calls": [1]}}),
        whole({"index": 0, "message": MESSAGE, "finish_reason": "stop"})[:-1]
        + f', "x": {DIGITS}}}',
    ],
    ids=["index", "message", "text", "choice", "call", "digits"],
)
async def test_an_answer_that_cannot_be_told_again_is_passed_on_and_not_kept(
    upstream: Upstream, body: str
) -> None:
    upstream.play(Behaviour(delay_ms=50, body=body))
    policy = replace(POLICY, stores_tool_calls=True)
    async with caching_gateway(upstream, policy=policy) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(3)))
        replies.append(await chat(gateway.port))
        assert gateway.metric("cache_unreadable_total") >= 3
    assert {(one.status, one.body) for one in replies} == {(200, body.encode())}
    assert {cache(one) for one in replies} == {"miss"}
    assert not gateway.caches.flights  # type: ignore[union-attr]


@pytest.mark.parametrize("stream", [False, True])
async def test_bytes_that_are_no_text_reach_the_caller_and_are_not_kept(stream: bool) -> None:
    body, kind = (
        whole({"index": 0, "message": MESSAGE, "finish_reason": "stop"}),
        "application/json",
    )
    if stream:
        kind = "text/event-stream"
        chunks = [
            {"index": 0, "delta": {"content": "zero"}},
            {"index": 0, "delta": {"content": "one"}},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        body = "".join(f"data: {whole(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    told = body.encode().replace(b'"one"', b'"' + BROKEN + b'"')
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(told)}\r\n\r\n"
    async with serving(answering(head.encode() + told)) as (server, _):
        pool = pool_record("a", f"http://127.0.0.1:{server.port}/v1")
        async with caching_gateway(snapshot=cached_configuration(pool)) as gateway:
            replies = [await chat(gateway.port, stream=stream) for _ in range(2)]
            await gateway.wait_ended(2)
            assert gateway.metric("cache_unreadable_total") == 2
    assert [(one.status, cache(one)) for one in replies] == [(200, "miss")] * 2
    assert all(BROKEN in one.body and one.is_whole for one in replies)

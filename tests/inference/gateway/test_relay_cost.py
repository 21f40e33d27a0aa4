"""What a chunk of a stream costs, in what can be counted: calls, and waits of a coroutine."""

import asyncio
import sys
from collections import Counter
from statistics import median
from types import FrameType

import pytest

from inference.workers.answers import Answer
from inference.workers.connections import Connection
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import (
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

WORDS = 60

FRAME = (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"served-a",'
    '"choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}],'
    '"usage":{"prompt_tokens":10,"total_tokens":%d,"completion_tokens":%d}}\n\n'
)  # vLLM's own, to the byte
FRAMES = [FRAME % (10 + number, number) for number in range(1, WORDS + 1)]
STOP = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'

# 29 and 34 when it was written, of which the loop's transport and uvicorn's cycle have their part;
# one that is woken, or a frame that is parsed, costs more than the difference.
MOST_CALLS = {True: 32, False: 37}


@pytest.mark.parametrize("is_hot", [True, False])
async def test_a_chunk_is_passed_on_by_the_call_that_reads_it(
    upstream: Upstream, is_hot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    waits = 0
    received, wait = Connection.data_received, Answer._wait

    def counted(connection: Connection, data: bytes) -> None:
        count = Counter[str]()

        def note(frame: FrameType, event: str, argument: object) -> None:
            count[event] += 1

        sys.setprofile(note)
        try:
            received(connection, data)
        finally:
            sys.setprofile(None)
        calls.append(count["call"] + count["c_call"])

    async def counted_wait(answer: Answer, wait_s: float | None) -> bool:
        nonlocal waits
        waits += 1
        return await wait(answer, wait_s)

    monkeypatch.setattr(Connection, "data_received", counted)
    monkeypatch.setattr(Answer, "_wait", counted_wait)
    upstream.play(Behaviour(frames=[*FRAMES, STOP, "data: [DONE]\n\n"], gap_ms=3))
    pool = pool_record("a", upstream.base_url)
    route = route_record("a", total_timeout_ms=60_000)
    async with running_gateway(configuration(pool, routes=(route,)), is_hot=is_hot) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert len(asyncio.all_tasks()) < 10
        charge = gateway.books.charge
    assert reply.text.split() == ["word"] * WORDS
    assert charge.usage.completion_tokens == WORDS
    assert len(calls) > WORDS / 2
    assert median(calls) <= MOST_CALLS[is_hot]
    assert waits <= 5  # the head, what is held, the stream, its end

"""How kept answers are told: whole, as a stream, with their calls, and while renewed."""

import asyncio
import json
from dataclasses import replace

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Outcome
from tests.inference.caches.rig import (
    POLICY,
    TTL_S,
    Clock,
    cached_configuration,
    cached_route,
    caching_gateway,
)
from tests.inference.caches.test_exact import TOOLS, cache, events
from tests.inference.gateway.client import chat, streaming
from tests.inference.gateway.rig import pool_record
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

CALLS = [
    {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}},
    {"index": 1, "id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
]


async def test_a_stream_that_was_kept_is_told_whole_to_who_wants_no_stream(
    upstream: Upstream,
) -> None:
    async with caching_gateway(upstream) as gateway:
        streamed = await chat(gateway.port, stream=True)
        await gateway.wait_for(lambda: not gateway.caches.flights)  # type: ignore[union-attr]
        whole = await chat(gateway.port)
    assert cache(streamed) == "miss"
    assert (whole.status, cache(whole)) == (200, "hit; tier=local")
    assert whole.headers["content-type"] == "application/json"
    assert whole.json["object"] == "chat.completion"
    choice = whole.json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "one two three four five"}
    assert choice["finish_reason"] == "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert whole.json["usage"] == usage


@pytest.mark.parametrize("wants_usage", [False, True])
async def test_an_answer_that_was_kept_whole_is_told_as_a_stream(
    upstream: Upstream, wants_usage: bool
) -> None:
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    async with caching_gateway(upstream) as gateway:
        await chat(gateway.port)
        reply = await chat(gateway.port, stream=True, **options)
    assert (reply.status, reply.is_whole, cache(reply)) == (200, True, "hit; tier=local")
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    *frames, mark = events(reply)
    assert mark == "[DONE]"
    assert {frame["object"] for frame in frames} == {"chat.completion.chunk"}
    deltas = [frame["choices"][0]["delta"] for frame in frames if frame["choices"]]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"content": "one two three four five"},
        {},
    ]
    ends = [frame["choices"][0]["finish_reason"] for frame in frames if frame["choices"]]
    assert ends == [None, None, "stop"]
    shown = [frame["usage"] for frame in frames if "usage" in frame]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert shown == ([usage] if wants_usage else [])


async def test_a_stream_that_its_caller_left_is_kept_for_nobody(upstream: Upstream) -> None:
    upstream.play(Behaviour(calls=1, gap_ms=50, text="a b c d e f g h i j"), Behaviour(text="x y"))
    async with caching_gateway(upstream) as gateway:
        async with streaming(gateway.port) as call:
            await call.read_until(b" c")
            call.leave()
        await gateway.wait_ended(1)
        reply = await chat(gateway.port)
    assert gateway.books.ends[0].outcome is Outcome.CANCELLED
    assert (cache(reply), len(upstream.calls)) == ("miss", 2)
    assert reply.json["choices"][0]["message"]["content"] == "x y"


@pytest.mark.parametrize(
    "bad",
    [
        Behaviour(calls=1, cut_after=3, ending="close"),
        Behaviour(calls=1, frames=['data: {"error":{"message":"no"}}\n\n']),
        Behaviour(
            calls=1,
            frames=[
                'data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
                'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
            ],
        ),
        Behaviour(
            calls=1,
            frames=[
                'data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
                "data: [DONE]\n\n",
            ],
        ),
    ],
    ids=["cut", "error", "no-mark", "no-finish"],
)
async def test_nothing_is_kept_of_a_stream_without_a_proper_end(
    upstream: Upstream, bad: Behaviour
) -> None:
    upstream.play(bad, Behaviour())
    snapshot = cached_configuration(
        pool_record("a", upstream.base_url), routes=(cached_route("a", max_attempts=1),)
    )
    async with caching_gateway(upstream, snapshot=snapshot) as gateway:
        await chat(gateway.port, stream=True)
        await gateway.wait_ended(1)
        second = await chat(gateway.port)
    assert (cache(second), len(upstream.calls)) == ("miss", 2)


async def test_tool_calls_are_kept_if_the_policy_says_so_and_told_intact(
    upstream: Upstream,
) -> None:
    more = [{"index": 0, "function": {"arguments": '{"x":'}}]
    most = [{"index": 0, "function": {"arguments": "1}"}}]
    frames = [
        *({"tool_calls": [one]} for one in CALLS),
        {"tool_calls": more},
        {"tool_calls": most},
    ]
    chunks = [{"index": 0, "delta": one, "finish_reason": None} for one in frames]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    told = [
        f"data: {json.dumps({'id': 'c1', 'created': 7, 'choices': [one]})}\n\n" for one in chunks
    ]
    upstream.play(Behaviour(frames=[*told, "data: [DONE]\n\n"]))
    policy = replace(POLICY, stores_tool_calls=True)
    async with caching_gateway(upstream, policy=policy) as gateway:
        await chat(gateway.port, stream=True, tools=TOOLS)
        await gateway.wait_for(lambda: not gateway.caches.flights)  # type: ignore[union-attr]
        whole = await chat(gateway.port, tools=TOOLS)
        stream = await chat(gateway.port, tools=TOOLS, stream=True)
    assert (cache(whole), cache(stream), len(upstream.calls)) == (*["hit; tier=local"] * 2, 1)
    choice = whole.json["choices"][0]
    calls = [
        {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert (choice["message"]["tool_calls"], choice["finish_reason"]) == (calls, "tool_calls")
    assert (choice["message"]["content"], whole.json["id"]) == (None, "c1")
    deltas = [one["choices"][0]["delta"] for one in events(stream)[:-1]]
    replayed = [call for delta in deltas for call in delta.get("tool_calls", ())]
    assert replayed == [{"index": index, **call} for index, call in enumerate(calls)]


async def test_tool_calls_are_not_kept_by_default(upstream: Upstream) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    upstream.play(Behaviour(body=json.dumps({"id": "c", "choices": [choice]})))
    async with caching_gateway(upstream) as gateway:
        replies = [await chat(gateway.port, tools=TOOLS) for _ in range(2)]
    assert [cache(one) for one in replies] == ["miss", "miss"]


async def test_stale_answers_are_served_while_they_are_renewed(upstream: Upstream) -> None:
    clock = Clock()
    upstream.play(Behaviour(calls=1, text="old"), Behaviour(text="new"))
    async with caching_gateway(
        upstream, policy=replace(POLICY, stale_s=60), clock=clock
    ) as gateway:
        await chat(gateway.port)
        clock.skipped_s = TTL_S + 1
        stale = await chat(gateway.port)
        await gateway.wait_ended(3)
        fresh = await chat(gateway.port)
        clock.skipped_s = 2 * TTL_S + 100
        gone = await chat(gateway.port)
    texts = [one.json["choices"][0]["message"]["content"] for one in (stale, fresh, gone)]
    assert texts == ["old", "new", "new"]
    told = [cache(one) for one in (stale, fresh, gone)]
    assert told == ["stale; tier=local", "hit; tier=local", "miss"]
    assert int(stale.headers["age"]) > TTL_S
    renewal = next(one for one in gateway.books.ends[1:] if one.charges)
    assert renewal.charges[0].cost_nanousd == 10_000_000 + 2_000_000
    assert renewal.origin.key_id == gateway.books.ends[0].origin.key_id


async def test_many_who_meet_a_stale_answer_have_it_renewed_once(upstream: Upstream) -> None:
    clock = Clock()
    async with caching_gateway(
        upstream, policy=replace(POLICY, stale_s=60), clock=clock
    ) as gateway:
        await chat(gateway.port)
        upstream.play(Behaviour(delay_ms=200))
        clock.skipped_s = TTL_S + 1
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(10)))
        await gateway.wait_ended(12)
    assert {cache(one) for one in replies} == {"stale; tier=local"}
    assert len(upstream.calls) == 2


async def test_usage_of_a_kept_stream_is_what_its_worker_told(upstream: Upstream) -> None:
    upstream.play(Behaviour(usage={"prompt_tokens": 900, "completion_tokens": 7}))
    async with caching_gateway(upstream) as gateway:
        await chat(gateway.port, stream=True)
        await gateway.wait_for(lambda: not gateway.caches.flights)  # type: ignore[union-attr]
        await chat(gateway.port)
    used = gateway.books.ends[1].cache
    assert used is not None
    assert Usage(used.saved_prompt_tokens, used.saved_completion_tokens) == Usage(900, 7)

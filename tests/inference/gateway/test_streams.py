"""Streams over real sockets: framing, usage, holding back, and what clients must never see."""

import asyncio
import itertools
import json
import time
from typing import Any

import openai
import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Backend, ChargeKind, Outcome
from tests.inference.gateway.client import CHAT, chat, streaming
from tests.inference.gateway.rig import (
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

WORDS = "one two three four five"


def frame(document: object) -> str:
    return f"data: {json.dumps(document)}\n\n"


def delta(**members: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": None}]}


STOP = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
DONE = "data: [DONE]\n\n"


async def test_a_stream_has_the_headers_that_keep_proxies_from_collecting_it(
    gateway: Gateway,
) -> None:
    reply = await chat(gateway.port, stream=True)
    assert reply.headers == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, private, no-store",
        "vary": "Authorization",
        "x-accel-buffering": "no",
        "x-request-id": gateway.books.end.event_id,
        "transfer-encoding": "chunked",
    }


@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.parametrize("options", [{}, {"stream_options": None}, {"stream_options": {}}])
async def test_usage_is_booked_though_the_client_never_asked_nor_sees_it(
    upstream: Upstream, backend: Backend, options: dict[str, object]
) -> None:
    pool = pool_record("a", upstream.base_url, backend=backend)
    async with running_gateway(configuration(pool)) as gateway:
        reply = await chat(gateway.port, stream=True, **options)
        assert gateway.books.charge.usage == Usage(10, 5)
        assert gateway.books.charge.kind is ChargeKind.FINAL
        assert gateway.books.charge.cost_nanousd == 20_000_000
    assert (reply.text, reply.is_whole, reply.events[-1]) == (WORDS, True, "[DONE]")
    assert b'"usage"' not in reply.body
    assert all(chunk["choices"] for chunk in reply.chunks)
    asked = json.loads(upstream.calls[0].body or "")["stream_options"]
    assert asked["include_usage"] is True
    assert asked.get("continuous_usage_stats", False) is (backend is Backend.VLLM)


async def test_an_explicit_no_to_usage_is_respected_and_other_options_are_kept(
    gateway: Gateway, upstream: Upstream
) -> None:
    options = {"include_usage": False, "x_other": [1, None]}
    reply = await chat(gateway.port, stream=True, stream_options=options)
    assert b'"usage"' not in reply.body
    assert gateway.books.charge.usage == Usage(10, 5)
    assert json.loads(upstream.calls[0].body or "")["stream_options"] == {
        "include_usage": True,
        "x_other": [1, None],
        "continuous_usage_stats": True,
    }


@pytest.mark.parametrize("backend", list(Backend))
async def test_usage_that_was_asked_for_comes_once_at_the_end(
    upstream: Upstream, backend: Backend
) -> None:
    pool = pool_record("a", upstream.base_url, backend=backend)
    async with running_gateway(configuration(pool)) as gateway:
        reply = await chat(gateway.port, stream=True, stream_options={"include_usage": True})
    with_usage = [chunk for chunk in reply.chunks if "usage" in chunk]
    assert [(chunk["choices"], chunk["usage"]["completion_tokens"]) for chunk in with_usage] == [
        ([], 5)
    ]
    assert reply.chunks[-1] == with_usage[0]


async def test_usage_in_every_frame_reaches_those_who_asked_for_it(gateway: Gateway) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    reply = await chat(gateway.port, stream=True, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in reply.chunks if "usage" in chunk]
    assert counts == [1, 2, 3, 4, 5, 5]


async def test_zero_usage_is_zero_and_no_usage_is_an_estimate(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(
        Behaviour(usage={"prompt_tokens": 0, "completion_tokens": 0}, calls=1),
        Behaviour(usage=None),
    )
    await chat(gateway.port, stream=True)
    await chat(gateway.port, stream=True, max_tokens=10)
    zero, unknown = (end.charges[0] for end in gateway.books.ends)
    assert (zero.kind, zero.usage, zero.cost_nanousd) == (ChargeKind.FINAL, Usage(0, 0), 0)
    assert (unknown.kind, unknown.usage) == (ChargeKind.ESTIMATED, Usage())
    assert unknown.cost_nanousd == 0
    assert unknown.cost_max_nanousd == gateway.books.openings[1].cost_max_nanousd


async def test_usage_in_parts_is_put_together(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(
        Behaviour(
            frames=[
                frame({**delta(content="a"), "usage": {"prompt_tokens": 7}}),
                STOP,
                frame({"choices": [], "usage": {"completion_tokens": 3}}),
                DONE,
            ]
        )
    )
    await chat(gateway.port, stream=True)
    charge = gateway.books.charge
    assert (charge.kind, charge.usage) == (ChargeKind.FINAL, Usage(7, 3))


async def test_comments_before_the_first_frame_are_no_events(
    gateway: Gateway, upstream: Upstream
) -> None:
    comments = [": OPENROUTER PROCESSING\n\n", ":\n\n", ": x\n\n\n"]
    upstream.play(Behaviour(frames=[*comments, frame(delta(content="a")), STOP, DONE]))
    reply = await chat(gateway.port, stream=True)
    assert reply.text == "a"
    assert len(reply.events) == 3
    assert b"\n\n\n" not in reply.body
    assert reply.body.startswith(b"data: ")


async def test_every_kind_of_delta_arrives_in_order_and_untouched(
    gateway: Gateway, upstream: Upstream
) -> None:
    calls = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    deltas = [
        *({"reasoning": "a"}, {"reasoning_content": "b"}, {"content": "c"}, {"refusal": "d"}),
        *({"tool_calls": [call]} for call in calls),
        {"x_unknown": {"deep": [1e-7, None]}},
    ]
    frames = [frame(delta(**one)) for one in deltas]
    upstream.play(Behaviour(frames=[frame(delta(role="assistant")), *frames, STOP, DONE]))
    reply = await chat(gateway.port, stream=True)
    assert reply.body.decode() == "".join([frame(delta(role="assistant")), *frames, STOP, DONE])


async def test_frames_arrive_as_they_are_made(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=100))
    arrivals: list[float] = []
    async with streaming(gateway.port) as call:
        while part := await call.read_part():
            arrivals.append(time.monotonic())
            assert part.count(b"data: ") <= 2
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert sorted(gaps)[len(gaps) // 2] > 0.05
    assert gateway.books.end.first_token_ms is not None
    assert gateway.books.end.first_token_ms < gateway.books.end.total_ms - 300


async def test_the_first_frames_wait_for_content(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=200))
    async with streaming(gateway.port) as call:
        first = await call.read_part()
    assert first.count(b"data: ") == 2
    assert b'"role":"assistant"' in first
    assert b'"one"' in first


async def test_they_wait_a_second_at_most(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=1500))
    started = time.monotonic()
    async with streaming(gateway.port) as call:
        first = await call.read_part()
        assert time.monotonic() - started > 0.9
        assert first.count(b"data: ") == 1
        await call.read_until(b'"one"')
    charge_ms = (time.monotonic() - started) * 1000
    await gateway.wait_ended()
    first_token_ms = gateway.books.end.first_token_ms
    assert first_token_ms is not None
    assert 1400 < first_token_ms < charge_ms


@pytest.mark.parametrize("split_at", range(1, 60, 7))
async def test_usage_split_over_two_reads_is_found(
    gateway: Gateway, upstream: Upstream, split_at: int
) -> None:
    closing = frame({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    parts = [closing[:split_at], closing[split_at:]]
    content = frame(delta(content="a"))
    upstream.play(Behaviour(frames=[content, STOP, *parts, DONE], gap_ms=5))
    reply = await chat(gateway.port, stream=True)
    assert reply.body.decode() == content + STOP + DONE
    assert gateway.books.charge.usage == Usage(10, 5)


async def test_a_worker_without_the_closing_mark_is_whole_if_it_gave_a_reason(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(frames=[frame(delta(content="a")), STOP]))
    reply = await chat(gateway.port, stream=True)
    assert (reply.is_whole, reply.events[-1]) == (True, "[DONE]")
    assert gateway.books.end.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Behaviour(body="<html>ok</html>", content_type="text/html"), "upstream_bad_answer"),
        (Behaviour(body="", content_type="text/event-stream"), "upstream_closed"),
        (Behaviour(body='{"choices":[]}'), "upstream_bad_answer"),
        (Behaviour(body='{"error":{"message":"x","code":500}}'), "upstream_failed"),
        (Behaviour(frames=["data: <html>\n\n"]), "upstream_bad_answer"),
        (Behaviour(frames=[DONE]), "upstream_bad_answer"),
        (Behaviour(frames=[frame(delta(role="assistant")), DONE]), "upstream_bad_answer"),
    ],
)
async def test_what_is_no_stream_is_a_bad_gateway_in_shape(
    gateway: Gateway, upstream: Upstream, behaviour: Behaviour, code: str
) -> None:
    upstream.play(behaviour)
    reply = await chat(gateway.port, stream=True)
    assert (reply.status, reply.error["code"]) == (502, code)
    assert b"html" not in reply.body


async def test_the_end_is_in_the_books_before_the_client_has_the_last_bytes(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=20))
    seen: list[bytes] = []
    async with streaming(gateway.port) as call:
        gateway.books.wrote = lambda _fact: seen.append(call.body)
        await call.read_rest()
    assert len(seen) == 1
    assert b"[DONE]" not in seen[0]
    assert b"[DONE]" in call.body


async def test_a_slow_client_slows_the_worker_down(gateway: Gateway, upstream: Upstream) -> None:
    words = " ".join(["word" * 250] * 20_000)  # 20 MB, far more than all buffers on the way
    upstream.play(Behaviour(text=words))
    async with streaming(gateway.port) as call:
        await asyncio.sleep(0)
        served: list[int] = []

        def has_stopped() -> bool:
            served.append(upstream.calls[0].served_tokens)
            return len(served) > 20 and served[-1] == served[-20] > 0

        await gateway.wait_for(has_stopped)
        assert served[-1] < 19_000
        reply = await call.read_rest()
    assert reply.text == words
    assert reply.is_whole


async def test_the_official_client_reads_streams_and_answers(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(
        Behaviour(
            frames=[":\n\n", frame(delta(content="a")), ": ping\n\n", "id: 1\n\n", STOP, DONE]
        ),
    )
    base_url = f"http://127.0.0.1:{gateway.port}{CHAT.removesuffix('/chat/completions')}"
    async with openai.AsyncOpenAI(base_url=base_url, api_key=TOKEN, max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "ping"}], stream=True
        )
        texts = [chunk.choices[0].delta.content async for chunk in stream]
        assert texts == ["a", None]
        assert [model.id async for model in client.models.list()] == ["m"]
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="nope", messages=[])
        assert caught.value.code == "model_not_found"


async def test_the_default_bound_of_the_route_is_in_the_opening(upstream: Upstream) -> None:
    route = route_record("a", default_max_output_tokens=77)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port, stream=True, n=2)
        assert gateway.books.openings[0].output_tokens_max == 154

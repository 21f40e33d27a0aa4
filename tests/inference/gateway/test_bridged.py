"""Requests in a dialect that a worker doesn't speak, as they are on the wire and in the books."""

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.contract.kinds import Backend, ChargeKind, Endpoint, Outcome
from inference.decisions.bridging.base import Said
from inference.decisions.bridging.registry import REGISTRY
from inference.gateway.bridged import BridgedFilter, in_other_words
from inference.gateway.schemas import parse_request, upstream_body
from inference.gateway.streaming import BadFrame
from inference.gateway.trimming import trimmed
from tests.decisions.chats import unhurried
from tests.inference.gateway.client import opened, post, request_bytes, send
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.gateway.test_bridged_clients import CALLED_IN_PARTS, chunks
from tests.upstream.fixtures import Upstream
from tests.upstream.script import DEFAULT_TEXT, Behaviour

pytestmark = pytest.mark.slow

ASKED = [{"role": "user", "content": "ping"}]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SAMPLES: dict[str, dict[str, Any]] = {
    MESSAGES: {"max_tokens": 9, "messages": ASKED},
    RESPONSES: {"max_output_tokens": 9, "input": "ping"},
}
each_dialect = pytest.mark.parametrize("path", SAMPLES)
ERROR_FRAME = 'data: {"error":{"message":"boom","code":500}}\n\n'


def chat_only(name: str, upstream: Upstream, **changes: Any) -> Any:
    return pool_record(name, upstream.base_url, endpoints=(Endpoint.CHAT,), **changes)


@each_dialect
async def test_a_target_that_speaks_the_dialect_is_asked_first_and_in_the_callers_own_bytes(
    path: str, upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = (chat_only("a", upstream), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools)) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], extra={"a": [1e-7]})
        assert reply.status == 200
        assert (upstream.calls, other_upstream.calls[0].path) == ([], path)
        assert '"extra":{"a": [1e-07]}' in (other_upstream.calls[0].body or "")
        other_upstream.play(Behaviour(status=500))
        assert (await post(gateway.port, path, **SAMPLES[path])).status == 200
    assert [call.path for call in upstream.calls] == [CHAT]
    decision = gateway.books.ends[1].decision
    assert decision is not None
    assert decision["targets"] == ["tgt_b", "tgt_a"]
    assert [one.get("bridge") for one in decision["attempts"]] == [None, "chat"]  # type: ignore[attr-defined]


@each_dialect
async def test_a_request_without_words_in_chat_goes_to_those_that_need_none(
    path: str, upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = (chat_only("a", upstream), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools)) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], tools=[{"type": "web_search"}])
        assert reply.status == 200
    assert (upstream.calls, other_upstream.calls[0].path) == ([], path)
    decision = gateway.books.end.decision
    assert decision is not None
    assert (decision["targets"], decision["left_out"]) == (["tgt_b"], {"tgt_a": "not_bridgeable"})
    assert decision["facts"]["is_bridgeable"] is False  # type: ignore[index]


async def test_a_server_of_openais_api_is_asked_for_responses_as_they_came(
    upstream: Upstream,
) -> None:
    pool = pool_record("a", upstream.base_url, backend=Backend.OPENAI)
    async with running_gateway(configuration(pool)) as gateway:
        assert (await post(gateway.port, RESPONSES, input="ping")).json["id"] == "resp_1"
        reply = await post(gateway.port, MESSAGES, **SAMPLES[MESSAGES])
        assert reply.json["content"] == [{"type": "text", "text": DEFAULT_TEXT}]
        counted = await post(gateway.port, f"{MESSAGES}/count_tokens", messages=ASKED)
        assert (counted.status, counted.json["error"]["details"]["param"]) == (400, "model")
    assert [call.path for call in upstream.calls] == [RESPONSES, CHAT]


async def test_an_older_engine_counts_by_its_tokenizer(upstream: Upstream) -> None:
    endpoints = (Endpoint.CHAT, Endpoint.TOKENIZE)
    pool = pool_record("a", upstream.base_url, endpoints=endpoints)
    async with running_gateway(configuration(pool)) as gateway:
        reply = await post(gateway.port, f"{MESSAGES}/count_tokens", messages=ASKED)
    assert (reply.status, reply.json) == (200, {"input_tokens": 4})
    assert upstream.calls[0].path == "/tokenize"
    assert json.loads(upstream.calls[0].body or "") == {"messages": ASKED, "model": "served-a"}
    assert gateway.books.charge.usage == Usage(0, 0)


@each_dialect
@pytest.mark.parametrize(
    ("backend", "bound"),
    [(Backend.VLLM, "max_tokens"), (Backend.OPENAI, "max_completion_tokens")],
)
async def test_the_bound_is_called_as_the_worker_calls_it(
    path: str, backend: Backend, bound: str, upstream: Upstream
) -> None:
    pool = chat_only("a", upstream, backend=backend)
    async with running_gateway(configuration(pool)) as gateway:
        await post(gateway.port, path, **SAMPLES[path])
    body = json.loads(upstream.calls[0].body or "")
    assert {name: one for name, one in body.items() if name.startswith("max_")} == {bound: 9}


@each_dialect
async def test_a_failure_before_content_is_mended_unseen_by_another_worker(
    path: str, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(frames=[chunks({"role": "assistant"})[0], ERROR_FRAME]))
    pools = (chat_only("a", upstream), chat_only("b", other_upstream))
    async with running_gateway(configuration(*pools)) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], stream=True)
    assert reply.is_whole
    kinds = [one["type"] for one in reply.chunks]
    assert kinds.count("message_start") + kinds.count("response.created") == 1
    texts = [one["delta"] for one in reply.chunks if one["type"].endswith(("_delta", "text.delta"))]
    words = [one if isinstance(one, str) else one.get("text", "") for one in texts]
    assert "".join(words) == DEFAULT_TEXT
    assert [one.error_code for one in gateway.books.end.charges] == ["upstream_failed", None]


@each_dialect
@pytest.mark.parametrize("how", ["error", "broken", "cut"])
async def test_a_stream_that_breaks_ends_with_the_dialects_error(
    path: str, how: str, upstream: Upstream
) -> None:
    begun = chunks({"role": "assistant", "content": ""}, {"content": "one"})[:2]
    ends = {"error": [ERROR_FRAME], "broken": ['data: {"choices":5}\n\n'], "cut": []}
    # apart, so that the caller has been sent the first by then
    upstream.play(Behaviour(frames=[*begun, *ends[how]], gap_ms=300, ending="close"))
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], stream=True)
    assert not reply.is_whole
    code = {"error": "upstream_failed", "broken": "upstream_bad_answer", "cut": "upstream_closed"}
    last = reply.chunks[-1]
    assert last["type"] == "error"
    if path == MESSAGES:
        assert last["error"]["type"] == "api_error"
        assert last["error"]["details"] == {"error_code": code[how]}
    else:
        assert last["code"] == code[how]
        numbers = [one["sequence_number"] for one in reply.chunks]
        assert numbers == list(range(len(numbers)))
    end = gateway.books.end
    assert (end.outcome, end.error_code) == (Outcome.ERROR, code[how])


@each_dialect
async def test_a_stream_whose_worker_forgot_the_mark_of_its_end_is_whole(
    path: str, upstream: Upstream
) -> None:
    upstream.play(Behaviour(frames=chunks({"content": "one"})[:-1]))
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], stream=True)
    assert reply.is_whole
    assert reply.chunks[-1]["type"] in ("message_stop", "response.completed")
    assert gateway.books.charge.usage == Usage(10, 5, 4, 2)


async def test_a_prompt_that_is_counted_in_the_first_chunk_is_told_at_the_beginning(
    upstream: Upstream,
) -> None:
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        frames = [
            'data: {"model":"s","choices":[{"index":0,"delta":{"role":"assistant"}}],'
            '"usage":{"prompt_tokens":10,"completion_tokens":0}}\n\n',
            *chunks({"content": "one"}),
        ]
        upstream.play(Behaviour(frames=frames))
        reply = await post(gateway.port, MESSAGES, **SAMPLES[MESSAGES], stream=True)
    usages = [reply.chunks[0]["message"]["usage"], reply.chunks[-2]["usage"]]
    assert [one["input_tokens"] for one in usages] == [10, 6]


@each_dialect
async def test_a_caller_that_leaves_is_booked_by_what_the_worker_had_counted(
    path: str, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=400))
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        body = json.dumps({"model": "m", **SAMPLES[path], "stream": True}).encode()
        async with opened(gateway.port, request_bytes(body, path=path)) as call:
            await call.read_head()
            await call.read_until(b"two")
            call.leave()
            await gateway.wait_ended()
        charge = gateway.books.charge
        assert gateway.books.end.outcome is Outcome.CANCELLED
        assert (charge.kind, charge.usage.prompt_tokens) == (ChargeKind.CUT, 10)
        assert (charge.usage.completion_tokens or 0) >= 2
        await gateway.wait_for(lambda: upstream.calls[0].is_closed_early)


@each_dialect
async def test_an_answer_of_a_hedge_is_told_like_any_other(
    path: str, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=30_000))
    pools = (chat_only("a", upstream), chat_only("b", other_upstream, backend=Backend.OPENAI))
    route = route_record("a", "b", hedge_after_ms=20)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path])
        assert reply.json["id"].startswith(("msg_", "resp_"))
        streamed = await post(gateway.port, path, **SAMPLES[path], stream=True)
        assert streamed.chunks[-1]["type"] in ("message_stop", "response.completed")
    assert {call.path for call in other_upstream.calls} == {CHAT}


async def test_a_refusal_of_the_workers_is_passed_on_in_the_dialect(upstream: Upstream) -> None:
    error = {"message": "no such effort", "param": "reasoning_effort", "code": "invalid_value"}
    upstream.play(Behaviour(status=400, body=json.dumps({"error": error})))
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        reply = await post(gateway.port, MESSAGES, **SAMPLES[MESSAGES])
    assert reply.status == 400
    assert reply.json["error"] == {
        "type": "invalid_request_error",
        "message": "no such effort",
        "details": {"error_code": "invalid_value", "param": "reasoning_effort"},
    }


async def test_the_debug_header_says_what_was_translated(upstream: Upstream) -> None:
    async with running_gateway(configuration(chat_only("a", upstream))) as gateway:
        body = json.dumps({"model": "m", **SAMPLES[MESSAGES]}).encode()
        headers = {"x-headworks-debug": "1"}
        asked = request_bytes(body, path=MESSAGES, token=DEBUG_TOKEN, headers=headers)
        reply = await send(gateway.port, asked)
    decision = json.loads(reply.headers["x-headworks-decision"])
    assert decision["attempts"][0]["bridge"] == "chat"


STREAM = "".join([": hello\n\n", *CALLED_IN_PARTS[:3], ":\n", *CALLED_IN_PARTS[3:]]).encode()


def filtered(path: str, parts: list[bytes]) -> tuple[bytes, BridgedFilter]:
    endpoint = Endpoint.MESSAGES if path == MESSAGES else Endpoint.RESPONSES
    telling = REGISTRY[endpoint].telling
    assert telling is not None
    stream = BridgedFilter(telling(Said({})), answer_id="r1", at=7)
    told = b"".join([stream.feed(part) for part in parts])
    return told + stream.end() + stream.closing, stream


@unhurried
@given(
    st.sampled_from(list(SAMPLES)),
    st.lists(st.integers(0, len(STREAM)), max_size=8),
    st.booleans(),
)
def test_it_does_not_matter_how_a_stream_is_cut(
    path: str, places: list[int], is_crlf: bool
) -> None:
    data = STREAM.replace(b"\n", b"\r\n") if is_crlf else STREAM
    bounds = [0, *sorted(places), len(data)]
    parts = [data[one:other] for one, other in pairwise(bounds)]
    told, stream = filtered(path, parts)
    assert without_comments(told) == without_comments(filtered(path, [STREAM])[0])
    assert (stream.is_done, stream.usage()) == (True, Usage(10, 5, 4, 2))


def without_comments(told: bytes) -> bytes:
    """One before the first content is dropped, and what has come of that depends on the cuts."""
    return told.replace(b"\n:\n", b"\n")


def test_a_stream_that_ends_with_a_nameless_call_is_no_answer() -> None:
    nameless = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    with pytest.raises(BadFrame):
        filtered(MESSAGES, ["".join(chunks(nameless)).encode()])


def test_a_frame_of_several_lines_is_read_as_one() -> None:
    one = msgspec.json.encode({"choices": [{"delta": {"content": "a"}}], "model": "s"})
    halves = one.replace(b",", b",\ndata: ", 1)
    told, _ = filtered(MESSAGES, [b"id: 5\ndata: " + halves + b"\n\n", b"data: [DONE]\n\n"])
    assert b'{"type":"text_delta","text":"a"}' in told


@each_dialect
def test_a_bound_that_the_gateway_sets_is_the_chats(path: str) -> None:
    endpoint = Endpoint.MESSAGES if path == MESSAGES else Endpoint.RESPONSES
    exchange: Any = SimpleNamespace(bridged=None, endpoint=endpoint)
    body = json.dumps({"model": "m", **SAMPLES[path]}).encode()
    request = trimmed(parse_request(endpoint, body), endpoint=endpoint, most=5)
    told = in_other_words(exchange, request)
    sent = upstream_body(
        told.asked, served_model="s", usage_options={}, chat_bound="max_completion_tokens"
    )
    assert json.loads(sent) == {"model": "s", "messages": ASKED, "max_completion_tokens": 5}
    assert in_other_words(exchange, request) is told
    other = in_other_words(exchange, trimmed(request, endpoint=endpoint, most=4))
    assert other.asked.replaced == {"max_tokens": b"4"}

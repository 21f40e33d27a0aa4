"""The official clients, as callers use them: plain, streamed, tools, errors, retries, leaving."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from redis.asyncio import Redis

from inference.contract.events import Usage
from inference.contract.kinds import Outcome, Task
from tests.inference.gateway.client import chat, post
from tests.inference.gateway.rig import (
    MODEL,
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    running_gateway,
)
from tests.inference.gateway.test_endpoints import SAMPLES
from tests.inference.gateway.test_limits import requests
from tests.inference.limits.rig import SEEDED
from tests.upstream.fixtures import Upstream
from tests.upstream.script import DEFAULT_TEXT, Behaviour

pytestmark = pytest.mark.slow


CONVERSATION: list[Any] = [{"role": "user", "content": "ping"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = '{"city": "Paris"}'


@asynccontextmanager
async def openai_client(
    gateway: Gateway, *, key: str = TOKEN, max_retries: int = 0
) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"http://127.0.0.1:{gateway.port}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=max_retries) as client:
        yield client


@asynccontextmanager
async def anthropic_client(
    gateway: Gateway, *, key: str = TOKEN, max_retries: int = 0
) -> AsyncIterator[anthropic.AsyncAnthropic]:
    url = f"http://127.0.0.1:{gateway.port}"
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key=key, max_retries=max_retries
    ) as client:
        yield client


def events(*documents: dict[str, Any]) -> list[str]:
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in documents]


async def test_openai_responds(gateway: Gateway) -> None:
    async with openai_client(gateway) as client:
        raw = await client.responses.with_raw_response.create(model="m", input="ping")
        answer = raw.parse()
        assert (answer.output_text, answer.status) == (DEFAULT_TEXT, "completed")
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)
        assert raw.headers["x-request-id"] == gateway.books.end.event_id == answer._request_id
        stream = await client.responses.create(model="m", input=CONVERSATION, stream=True)
        seen = [event async for event in stream]
        words = [event.delta for event in seen if event.type == "response.output_text.delta"]
        assert "".join(words) == DEFAULT_TEXT
        assert seen[-1].type == "response.completed"
        async with client.responses.stream(model="m", input="ping") as kept:
            async for _ in kept:
                pass
            assert (await kept.get_final_response()).output_text == DEFAULT_TEXT
    assert [end.charges[0].usage for end in gateway.books.ends] == [Usage(10, 5, 0, 0)] * 3


async def test_openai_is_told_what_is_not_offered(gateway: Gateway) -> None:
    async with openai_client(gateway) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="m", input="a", previous_response_id="resp_1")
        assert (refused.value.param, refused.value.code) == (
            "previous_response_id",
            "invalid_request",
        )
        with pytest.raises(openai.BadRequestError, match="background"):
            await client.responses.create(model="m", input="a", background=True)
        for call in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(openai.NotFoundError) as lost:
                await call("resp_1")
            assert lost.value.code == "response_not_found"


async def test_openais_tools_pass_through(gateway: Gateway, upstream: Upstream) -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "weather"}
    done = {**call, "arguments": ARGUMENTS, "status": "completed"}
    response = {"id": "resp_1", "object": "response", "output": [done], "status": "completed"}
    at = {"item_id": "fc_1", "output_index": 0, "sequence_number": 1}
    upstream.play(
        Behaviour(calls=1, body=json.dumps(response)),
        Behaviour(
            frames=events(
                {"type": "response.created", "response": {**response, "output": []}},
                {"type": "response.output_item.added", "item": {**done, "arguments": ""}, **at},
                {"type": "response.function_call_arguments.delta", "delta": ARGUMENTS, **at},
                {"type": "response.output_item.done", "item": done, **at},
                {"type": "response.completed", "response": response},
            )
        ),
    )
    tool: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    async with openai_client(gateway) as client:
        answer = await client.responses.create(model="m", input="ping", tools=[tool])
        (item,) = answer.output
        assert item.type == "function_call"
        assert (item.name, json.loads(item.arguments)) == ("weather", {"city": "Paris"})
        stream = await client.responses.create(model="m", input="a", tools=[tool], stream=True)
        seen = [event async for event in stream]
    assert [one.delta for one in seen if one.type.endswith("arguments.delta")] == [ARGUMENTS]  # type: ignore[union-attr]
    for one in upstream.calls:
        assert json.loads(one.body or "")["tools"] == [tool]


async def test_anthropic_answers_and_counts(gateway: Gateway, upstream: Upstream) -> None:
    async with anthropic_client(gateway) as client:
        raw = await client.messages.with_raw_response.create(
            model="m", max_tokens=9, messages=CONVERSATION, system="be brief"
        )
        answer = await raw.parse()
        assert (answer.content[0].text, answer.stop_reason) == (DEFAULT_TEXT, "end_turn")  # type: ignore[union-attr]
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)
        assert raw.headers["request-id"] == gateway.books.end.event_id == answer._request_id
        stream = await client.messages.create(
            model="m", max_tokens=9, messages=CONVERSATION, stream=True
        )
        kinds = [event.type async for event in stream]
        assert (kinds[0], kinds[-1], kinds.count("content_block_delta")) == (
            "message_start",
            "message_stop",
            5,
        )
        async with client.messages.stream(model="m", max_tokens=9, messages=CONVERSATION) as kept:
            assert "".join([text async for text in kept.text_stream]) == DEFAULT_TEXT
            final = await kept.get_final_message()
        assert (final.usage.output_tokens, final.stop_reason) == (5, "end_turn")
        counted = await client.messages.count_tokens(model="m", messages=CONVERSATION)
        assert counted.input_tokens > 10
        assert [one.id async for one in client.models.list()] == ["m"]
    assert [end.charges[0].usage for end in gateway.books.ends] == [
        *[Usage(10, 5)] * 3,
        Usage(0, 0),
    ]
    assert json.loads(upstream.calls[0].body or "")["system"] == "be brief"


async def test_anthropics_tools_pass_through(gateway: Gateway, upstream: Upstream) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "served-a"}
    usage = {"input_tokens": 10, "output_tokens": 5}
    asked = {**use, "input": json.loads(ARGUMENTS)}
    whole = {**message, "content": [asked], "stop_reason": "tool_use", "usage": usage}
    halves = (ARGUMENTS[:6], ARGUMENTS[6:])
    deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    upstream.play(
        Behaviour(calls=1, body=json.dumps(whole)),
        Behaviour(
            frames=events(
                {"type": "message_start", "message": {**message, "content": [], "usage": usage}},
                {"type": "content_block_start", "index": 0, "content_block": {**use, "input": {}}},
                *({"type": "content_block_delta", "index": 0, "delta": one} for one in deltas),
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": end, "usage": usage},
                {"type": "message_stop"},
            )
        ),
    )
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    wish: Any = {"model": "m", "max_tokens": 9, "messages": CONVERSATION, "tools": tools}
    async with anthropic_client(gateway) as client:
        answer = await client.messages.create(**wish)
        async with client.messages.stream(**wish) as stream:
            streamed = await stream.get_final_message()
    for one in (answer, streamed):
        assert one.stop_reason == "tool_use"
        assert one.content[0].input == {"city": "Paris"}  # type: ignore[union-attr]
    for call in upstream.calls:
        assert json.loads(call.body or "")["tools"] == tools


@pytest.mark.parametrize(
    ("behaviour", "kind", "status"),
    [
        (Behaviour(status=400, body='{"error":{"message":"no"}}'), "BadRequestError", 400),
        (Behaviour(status=422, body='{"error":{"message":"no"}}'), "UnprocessableEntityError", 422),
        (Behaviour(status=500), "InternalServerError", 502),
        (Behaviour(status=503), "InternalServerError", 503),
        (Behaviour(before_head="close"), "InternalServerError", 502),
    ],
)
async def test_errors_are_of_the_clients_own_kinds(
    gateway: Gateway, upstream: Upstream, behaviour: Behaviour, kind: str, status: int
) -> None:
    upstream.play(behaviour)
    async with openai_client(gateway) as client:
        for ask in (
            client.responses.create(model="m", input="a"),
            client.chat.completions.create(model="m", messages=CONVERSATION),
        ):
            with pytest.raises(getattr(openai, kind)) as caught:
                await ask
            assert caught.value.status_code == status
            assert caught.value.request_id == gateway.books.ends[-1].event_id
    async with anthropic_client(gateway) as other:
        with pytest.raises(getattr(anthropic, kind)) as failed:
            await other.messages.create(model="m", max_tokens=9, messages=CONVERSATION)
        assert failed.value.status_code == status
        assert failed.value.request_id == gateway.books.ends[-1].event_id


async def test_strangers_and_unknown_models_are_errors_of_their_own(gateway: Gateway) -> None:
    async with openai_client(gateway, key="hw_other.secret") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.responses.create(model="m", input="a")
    async with anthropic_client(gateway, key="hw_other.secret") as stranger:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            await stranger.messages.create(model="m", max_tokens=9, messages=CONVERSATION)
        assert (caught.value.type, caught.value.error_code) == (
            "authentication_error",
            "invalid_api_key",
        )
    async with openai_client(gateway) as client:
        with pytest.raises(openai.NotFoundError) as missing:
            await client.responses.create(model="nope", input="a")
        assert missing.value.code == "model_not_found"
    async with anthropic_client(gateway) as known:
        with pytest.raises(anthropic.NotFoundError) as unknown:
            await known.messages.count_tokens(model="nope", messages=CONVERSATION)
        assert (unknown.value.type, unknown.value.error_code) == (
            "not_found_error",
            "model_not_found",
        )


async def test_a_stream_that_dies_raises_in_both_clients(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(cut_after=6, ending="reset"))
    async with openai_client(gateway) as client:
        stream = await client.responses.create(model="m", input="a", stream=True)
        with pytest.raises(openai.APIError) as caught:
            _ = [event async for event in stream]
        assert caught.value.code == "upstream_closed"
    async with anthropic_client(gateway) as other:
        events_of = await other.messages.create(
            model="m", max_tokens=9, messages=CONVERSATION, stream=True
        )
        with pytest.raises(anthropic.APIStatusError) as failed:
            _ = [event async for event in events_of]
        assert (failed.value.type, failed.value.error_code) == ("api_error", "upstream_closed")


@pytest.mark.parametrize("which", ["openai", "anthropic"])
async def test_clients_come_back_when_they_are_told_to(
    gateway: Gateway, upstream: Upstream, which: str
) -> None:
    upstream.play(Behaviour(status=503, headers={"retry-after": "1"}, calls=1), Behaviour())
    started = time.monotonic()
    raw: Any
    if which == "openai":
        async with openai_client(gateway, max_retries=1) as client:
            raw = await client.responses.with_raw_response.create(model="m", input="a")
    else:
        async with anthropic_client(gateway, max_retries=1) as other:
            raw = await other.messages.with_raw_response.create(
                model="m", max_tokens=9, messages=CONVERSATION
            )
    assert (raw.status_code, raw.retries_taken) == (200, 1)
    assert time.monotonic() - started > 0.99
    assert [end.outcome for end in gateway.books.ends] == [Outcome.ERROR, Outcome.OK]


@pytest.mark.parametrize("which", ["openai", "anthropic"])
async def test_clients_do_not_wait_for_hours_inside_a_call(
    gateway: Gateway, upstream: Upstream, which: str
) -> None:
    upstream.play(Behaviour(status=503, headers={"retry-after": "3000"}))
    started = time.monotonic()
    if which == "openai":
        async with openai_client(gateway, max_retries=2) as client:
            with pytest.raises(openai.InternalServerError):
                await client.responses.create(model="m", input="a")
    else:
        async with anthropic_client(gateway, max_retries=2) as other:
            with pytest.raises(anthropic.InternalServerError):
                await other.messages.create(model="m", max_tokens=9, messages=CONVERSATION)
    assert time.monotonic() - started < 60
    assert len(gateway.books.ends) == 1


async def test_a_stream_that_is_closed_by_its_client_is_left_by_the_gateway(
    gateway: Gateway, upstream: Upstream
) -> None:
    await check_closed_streams(gateway, upstream)


async def check_closed_streams(gateway: Gateway, upstream: Upstream) -> None:
    """Both clients close a stream in its middle, and the worker's call ends."""
    upstream.play(Behaviour(gap_ms=500))
    async with openai_client(gateway) as client:
        stream = await client.responses.create(model="m", input="a", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        await gateway.wait_ended()
    async with anthropic_client(gateway) as other:
        async with other.messages.stream(
            model="m", max_tokens=9, messages=CONVERSATION
        ) as messages:
            async for _ in messages.text_stream:
                break
        await gateway.wait_ended(2)
    assert [end.outcome for end in gateway.books.ends] == [Outcome.CANCELLED] * 2
    await gateway.wait_for(lambda: all(one.is_closed_early for one in upstream.calls))


async def test_documents_are_reranked_by_the_clients_general_call(upstream: Upstream) -> None:
    models = (replace(MODEL, task=Task.EMBED),)
    snapshot = configuration(pool_record("a", upstream.base_url), models=models)
    async with running_gateway(snapshot) as gateway, openai_client(gateway) as client:
        answer: Any = await client.post(
            "/rerank",
            cast_to=object,
            body={"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 1},
        )
        assert [one["index"] for one in answer["results"]] == [0]
        assert gateway.books.charge.usage == Usage(20, 0)


@pytest.fixture
async def store(client: Redis, admin: Redis) -> Redis:
    """A client of a seeded store."""
    await admin.mset(SEEDED)
    return client


async def test_a_limit_that_is_used_up_is_used_up_on_every_endpoint(
    store: Redis, upstream: Upstream
) -> None:
    models = (MODEL, replace(MODEL, id="mdl_b", name="embedder", task=Task.EMBED))
    pools = (
        pool_record("a", upstream.base_url),
        pool_record("b", upstream.base_url, model_id="mdl_b"),
    )
    snapshot = configuration(*pools, models=models, limits=(requests(1),))
    async with running_gateway(snapshot, store=store) as gateway:
        assert (await chat(gateway.port)).status == 200
        for sample in SAMPLES:
            reply = await post(gateway.port, sample.path, **sample.fields)
            assert (reply.status, reply.code) == (429, "rate_limit_exceeded"), sample.path
            assert int(reply.headers["retry-after"]) > 0
        async with openai_client(gateway) as client:
            with pytest.raises(openai.RateLimitError) as refused:
                await client.responses.create(model="m", input="a")
            assert refused.value.code == "rate_limit_exceeded"
        async with anthropic_client(gateway, max_retries=2) as other:
            with pytest.raises(anthropic.RateLimitError) as limited:
                await other.messages.create(model="m", max_tokens=9, messages=CONVERSATION)
            assert (limited.value.type, limited.value.error_code) == (
                "rate_limit_error",
                "rate_limit_exceeded",
            )
    assert len(upstream.calls) == 1

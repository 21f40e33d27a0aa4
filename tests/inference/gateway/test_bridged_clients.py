"""The official clients of dialects that the worker doesn't speak: it knows chat alone."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Backend, Endpoint, Outcome
from tests.inference.gateway.rig import Gateway, configuration, pool_record, running_gateway
from tests.inference.gateway.test_clients import (
    ARGUMENTS,
    CONVERSATION,
    SCHEMA,
    anthropic_client,
    openai_client,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import DEFAULT_TEXT, Behaviour

pytestmark = pytest.mark.slow

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
BOOKED = Usage(10, 5, 4, 2)
PICTURE = "data:image/png;base64,aGk="


@pytest.fixture(params=[Backend.VLLM, Backend.OPENAI], ids=["vllm", "openai"])
async def gateway(request: pytest.FixtureRequest, upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose only worker has chat completions and nothing else."""
    pool = pool_record("a", upstream.base_url, backend=request.param, endpoints=(Endpoint.CHAT,))
    async with running_gateway(configuration(pool)) as running:
        yield running


def called(*calls: dict[str, Any], **words: Any) -> str:
    """A whole completion that calls tools."""
    message = {"role": "assistant", "content": None, "tool_calls": list(calls), **words}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "served"}
    return json.dumps({**made, "choices": choices, "usage": USAGE})


def a_call(index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


def chunks(*deltas: dict[str, Any], finish: str = "stop") -> list[str]:
    """A stream of these deltas, as a server of chat sends it."""
    made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    frames = [{**made, "choices": [one]} for one in choices]
    frames.append({**made, "choices": [], "usage": USAGE})
    return [*(f"data: {json.dumps(one)}\n\n" for one in frames), "data: [DONE]\n\n"]


CALLED_IN_PARTS = chunks(
    {"role": "assistant", "content": ""},
    {"tool_calls": [a_call(0, "weather", "")]},
    {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[:6]}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[6:]}}]},
    {"tool_calls": [a_call(1, "clock", "{}")]},
    finish="tool_calls",
)


def asked(upstream: Upstream) -> Any:
    """What the worker was sent last, which was chat."""
    call = upstream.calls[-1]
    assert call.path == "/v1/chat/completions"
    return json.loads(call.body or "")


async def test_anthropics_client_is_answered(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(usage=USAGE))
    async with anthropic_client(gateway) as client:
        raw = await client.messages.with_raw_response.create(
            model="m",
            max_tokens=9,
            messages=CONVERSATION,
            system="be brief",
            stop_sequences=["x"],
            extra_body={"temperature": 0.5, "top_k": 3},
            metadata={"user_id": "u1"},
        )
        answer = await raw.parse()
    assert (answer.content[0].text, answer.stop_reason) == (DEFAULT_TEXT, "end_turn")  # type: ignore[union-attr]
    assert answer.usage.output_tokens_details is not None
    assert (
        answer.usage.input_tokens,
        answer.usage.cache_read_input_tokens,
        answer.usage.output_tokens,
        answer.usage.output_tokens_details.thinking_tokens,
    ) == (6, 4, 5, 2)
    assert raw.headers["request-id"] == gateway.books.end.event_id
    assert answer.id == "msg_" + gateway.books.end.event_id.removeprefix("req_")
    assert (answer.model, answer.role, answer.type) == ("served-a", "assistant", "message")
    body = asked(upstream)
    bound = body.pop("max_tokens", None) or body.pop("max_completion_tokens")
    assert (bound, body) == (
        9,
        {
            "messages": [{"role": "system", "content": "be brief"}, *CONVERSATION],
            "stop": ["x"],
            "temperature": 0.5,
            "top_k": 3,
            "user": "u1",
            "model": "served-a",
        },
    )
    end = gateway.books.end
    assert (end.outcome, end.charges[0].usage, end.origin.endpoint) == (
        Outcome.OK,
        BOOKED,
        Endpoint.MESSAGES,
    )
    assert end.origin.end_user == "u1"
    assert end.decision is not None
    assert end.decision["attempts"][0]["bridge"] == "chat"  # type: ignore[index]


async def test_anthropics_client_reads_a_stream(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(usage=USAGE))
    async with anthropic_client(gateway) as client:
        stream = await client.messages.create(
            model="m", max_tokens=9, messages=CONVERSATION, stream=True
        )
        kinds = [event.type async for event in stream]
        async with client.messages.stream(model="m", max_tokens=9, messages=CONVERSATION) as kept:
            assert "".join([text async for text in kept.text_stream]) == DEFAULT_TEXT
            final = await kept.get_final_message()
    assert kinds == [
        *("message_start", "content_block_start"),
        *["content_block_delta"] * 5,
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == (
        "end_turn",
        6,
        5,
    )
    assert asked(upstream)["stream_options"]["include_usage"] is True
    assert [end.charges[0].usage for end in gateway.books.ends] == [BOOKED] * 2
    assert all(end.first_token_ms is not None for end in gateway.books.ends)


async def test_anthropics_tools_go_there_and_back(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(
        Behaviour(calls=1, body=called(a_call(0, "weather", ARGUMENTS), a_call(1, "clock", "{}"))),
        Behaviour(calls=1, frames=CALLED_IN_PARTS),
        Behaviour(),
    )
    tools: Any = [{"name": one, "input_schema": SCHEMA} for one in ("weather", "clock")]
    wish: Any = {"model": "m", "max_tokens": 9, "messages": CONVERSATION, "tools": tools}
    async with anthropic_client(gateway) as client:
        answer = await client.messages.create(**wish, tool_choice={"type": "any"})
        async with client.messages.stream(**wish) as stream:
            streamed = await stream.get_final_message()
        for one in (answer, streamed):
            assert one.stop_reason == "tool_use"
            assert [(use.id, use.name, use.input) for use in one.content] == [  # type: ignore[union-attr]
                ("call_0", "weather", {"city": "Paris"}),
                ("call_1", "clock", {}),
            ]
        results = [
            {"type": "tool_result", "tool_use_id": "call_1", "content": "noon"},
            {"type": "tool_result", "tool_use_id": "call_0", "content": "no", "is_error": True},
            {"type": "text", "text": "so?"},
        ]
        turns = [
            *CONVERSATION,
            {"role": "assistant", "content": streamed.content},
            {"role": "user", "content": results},
        ]
        wish["messages"] = turns
        assert (await client.messages.create(**wish)).stop_reason == "end_turn"
    first, body = json.loads(upstream.calls[0].body or ""), asked(upstream)
    assert first["tool_choice"] == "required"
    assert [one["function"] for one in body["tools"]] == [
        {"name": one, "parameters": SCHEMA} for one in ("weather", "clock")
    ]
    assert body["messages"] == [
        *CONVERSATION,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
                },
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "clock", "arguments": "{}"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
        {"role": "tool", "tool_call_id": "call_0", "content": "Error: no"},
        {"role": "user", "content": "so?"},
    ]


async def test_openais_client_is_answered(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(usage=USAGE))
    async with openai_client(gateway) as client:
        raw = await client.responses.with_raw_response.create(
            model="m",
            input=[
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "what is it?"},
                        {"type": "input_image", "image_url": PICTURE, "detail": "low"},
                    ],
                }
            ],
            instructions="be brief",
            max_output_tokens=9,
            reasoning={"effort": "low"},
            metadata={"a": "b"},
        )
        answer = raw.parse()
    assert (answer.output_text, answer.status) == (DEFAULT_TEXT, "completed")
    assert answer.usage is not None
    assert answer.usage.to_dict() == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }
    assert answer.id == "resp_" + gateway.books.end.event_id.removeprefix("req_")
    assert (answer.instructions, answer.metadata) == ("be brief", {"a": "b"})
    assert raw.headers["x-request-id"] == gateway.books.end.event_id
    body = asked(upstream)
    bound = body.pop("max_tokens", None) or body.pop("max_completion_tokens")
    assert (bound, body) == (
        9,
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what is it?"},
                        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
                    ],
                },
            ],
            "reasoning_effort": "low",
            "model": "served-a",
        },
    )
    assert gateway.books.charge.usage == BOOKED


async def test_openais_client_reads_a_stream(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(usage=USAGE))
    async with openai_client(gateway) as client:
        stream = await client.responses.create(model="m", input="ping", stream=True)
        seen = [event async for event in stream]
        async with client.responses.stream(model="m", input="ping") as kept:
            async for _ in kept:
                pass
            final = await kept.get_final_response()
    assert [event.type.removeprefix("response.") for event in seen] == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *["output_text.delta"] * 5,
        *("output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert final.output_text == DEFAULT_TEXT
    assert final.usage is not None
    assert (final.usage.input_tokens, final.usage.output_tokens) == (10, 5)
    assert [end.charges[0].usage for end in gateway.books.ends] == [BOOKED] * 2


async def test_openais_tools_go_there_and_back(gateway: Gateway, upstream: Upstream) -> None:
    thought = {"reasoning_content": "hm"}
    upstream.play(
        Behaviour(calls=1, body=called(a_call(0, "weather", ARGUMENTS), **thought)),
        Behaviour(calls=1, frames=CALLED_IN_PARTS),
        Behaviour(),
    )
    tool: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}
    async with openai_client(gateway) as client:
        answer = await client.responses.create(
            model="m",
            input="ping",
            tools=[tool],
            tool_choice={"type": "function", "name": "weather"},
        )
        async with client.responses.stream(model="m", input="a", tools=[tool]) as stream:
            async for _ in stream:
                pass
            streamed = await stream.get_final_response()
        thinking, item = answer.output
        assert (thinking.type, item.type) == ("reasoning", "function_call")
        assert (item.name, json.loads(item.arguments)) == ("weather", {"city": "Paris"})
        assert [(one.name, one.arguments) for one in streamed.output] == [  # type: ignore[union-attr]
            ("weather", ARGUMENTS),
            ("clock", "{}"),
        ]
        result: Any = {"type": "function_call_output", "call_id": "call_0", "output": "rain"}
        turns: Any = [*CONVERSATION, *(one.to_dict() for one in answer.output), result]
        assert (await client.responses.create(model="m", input=turns)).output_text == DEFAULT_TEXT
    first, body = json.loads(upstream.calls[0].body or ""), asked(upstream)
    function = {"name": "weather", "parameters": SCHEMA, "strict": True}
    assert first["tools"] == [{"type": "function", "function": function}]
    assert first["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assistant = body["messages"][1]
    assert assistant.pop("reasoning", None) or assistant.pop("reasoning_content") == "hm"
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ARGUMENTS},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "rain"},
    ]

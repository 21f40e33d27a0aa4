"""Chat's answers told as messages and responses: exact values, and whole as in a stream."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint
from inference.decisions.bridging.base import Bridge, Said, Telling
from inference.decisions.bridging.pieces import (
    Unreadable,
)
from inference.decisions.bridging.registry import REGISTRY
from inference.decisions.bridging.told_messages import MessageTelling
from inference.decisions.bridging.told_responses import ResponseTelling
from inference.decisions.endpoints import BRIDGES
from inference.decisions.usage import usage_of
from tests.decisions.chats import (
    USAGE,
    chunk,
    chunked,
    messages,
    told,
    unhurried,
    usage_in_chat,
    whole,
)

MESSAGES, RESPONSES = REGISTRY[Endpoint.MESSAGES], REGISTRY[Endpoint.RESPONSES]
ASKED = {"role": "user", "content": "ping"}
NOTHING = Said({}, told={"stop_sequences": ["x"]})
CALLS = [
    {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
    {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
]
# two calls whose parts come interleaved
INTERLEAVED = [
    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}}]},
    {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
]


def tell(bridge: Bridge, answer: dict[str, Any], *, usage: Usage | None = USAGE) -> Any:
    body = msgspec.json.encode({**answer, "usage": usage_in_chat(usage)})
    return bridge.tell(body, answer_id="r1", at=0, said=NOTHING)


def begin(bridge: Bridge) -> Telling:
    assert bridge.telling is not None
    return bridge.telling(NOTHING)


def streamed(deltas: list[dict[str, Any]], *, finish: str = "stop") -> list[Any]:
    return [*(chunk(delta) for delta in deltas), chunk({}, finish=finish)]


def accumulated(events: list[Any]) -> dict[str, Any]:
    """A message as a client puts it together from its events."""
    message: dict[str, Any] = {}
    parts: dict[int, list[str]] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = {**event["message"], "content": []}
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(dict(event["content_block"]))
                parts[event["index"]] = []
            case "content_block_delta":
                (text,) = (one for name, one in event["delta"].items() if name != "type")
                parts[event["index"]].append(text)
            case "content_block_stop":
                block, text = message["content"][event["index"]], "".join(parts[event["index"]])
                match block["type"]:
                    case "tool_use":
                        block["input"] = json.loads(text) if text.strip() else {}
                    case kind:
                        block[kind] = text
            case "message_delta":
                message |= {**event["delta"], "usage": event["usage"]}
    assert events[-1] == {"type": "message_stop"}
    return message


def test_every_bridge_is_declared_and_those_to_chat_are_streamed() -> None:
    assert set(REGISTRY) == set(BRIDGES)
    streamed = {endpoint for endpoint, bridge in REGISTRY.items() if bridge.telling is not None}
    assert streamed == {one for one, asked in BRIDGES.items() if asked is Endpoint.CHAT}


def test_an_answer_is_told_as_a_message() -> None:
    message = {"reasoning": "hm", "content": "so", "tool_calls": CALLS}
    assert tell(MESSAGES, whole(message, finish="tool_calls")) == {
        "id": "msg_r1",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 6,
            "output_tokens": 5,
            "cache_read_input_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }


def test_an_answer_is_told_as_a_response() -> None:
    message = {"reasoning": "hm", "content": "so", "tool_calls": CALLS}
    answer = tell(RESPONSES, whole(message, finish="tool_calls"))
    text = {"type": "output_text", "text": "so", "annotations": [], "logprobs": []}
    assert answer == {
        "id": "resp_r1",
        "object": "response",
        "created_at": 7,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "served",
        "output": [
            {
                "id": "rs_r1_0",
                "type": "reasoning",
                "status": "completed",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
            },
            {
                "id": "msg_r1_1",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [text],
            },
            {
                "id": "fc_r1_2",
                "type": "function_call",
                "status": "completed",
                "call_id": "a",
                "name": "f",
                "arguments": '{"x":1}',
            },
            {
                "id": "fc_r1_3",
                "type": "function_call",
                "status": "completed",
                "call_id": "b",
                "name": "g",
                "arguments": "",
            },
        ],
        "stop_sequences": ["x"],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 15,
        },
    }


@pytest.mark.parametrize(
    ("finish", "stopped_by", "message", "reason", "sequence"),
    [
        ("stop", None, {"content": "a"}, "end_turn", None),
        ("stop", "x", {"content": "a"}, "stop_sequence", "x"),
        ("stop", "y", {"content": "a"}, "end_turn", None),
        ("stop", 128_001, {"content": "a"}, "end_turn", None),
        ("stop", None, {"tool_calls": CALLS}, "tool_use", None),
        ("length", None, {"content": "a"}, "max_tokens", None),
        ("content_filter", None, {"content": ""}, "refusal", None),
        ("stop", None, {"refusal": "no"}, "refusal", None),
        ("abort", None, {"content": "a"}, "end_turn", None),
    ],
)
def test_why_a_message_ended_is_told(
    finish: str, stopped_by: object, message: dict[str, Any], reason: str, sequence: str | None
) -> None:
    answer = tell(MESSAGES, whole(message, finish=finish, stop_reason=stopped_by))
    assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, sequence)
    deltas = dict(message)
    if "tool_calls" in deltas:
        deltas["tool_calls"] = [{**one, "index": at} for at, one in enumerate(CALLS)]
    events = told(begin(MESSAGES), [chunk(deltas), chunk({}, finish=finish,
                  stop_reason=stopped_by)])  # fmt: skip
    assert events[-2]["delta"] == {"stop_reason": reason, "stop_sequence": sequence}


@pytest.mark.parametrize(
    ("finish", "status", "details"),
    [
        ("stop", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_why_a_response_ended_is_told(finish: str, status: str, details: object) -> None:
    answer = tell(RESPONSES, whole({"content": "a"}, finish=finish))
    assert (answer["status"], answer["incomplete_details"]) == (status, details)
    assert answer["output"][0]["status"] == status


def test_a_refusal_is_a_part_of_its_own_in_a_response() -> None:
    answer = tell(RESPONSES, whole({"content": "well", "refusal": "no"}))
    (item,) = answer["output"]
    assert [part["type"] for part in item["content"]] == ["output_text", "refusal"]
    assert item["content"][1] == {"type": "refusal", "refusal": "no"}


def test_arguments_that_are_no_object_are_kept_where_callers_find_them() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": '{"x":'}}
    answer = tell(MESSAGES, whole({"tool_calls": [call]}, finish="length"))
    assert answer["content"][0]["input"] == {"INVALID_JSON": '{"x":'}
    assert tell(RESPONSES, whole({"tool_calls": [call]}))["output"][0]["arguments"] == '{"x":'


def test_usage_that_nobody_told_is_nothing_or_the_dialects_nothing() -> None:
    answer = whole({"content": "a"})
    assert tell(RESPONSES, answer, usage=None)["usage"] is None
    assert tell(MESSAGES, answer, usage=None)["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert tell(MESSAGES, answer, usage=Usage(10, 5))["usage"] == {
        "input_tokens": 10,
        "output_tokens": 5,
    }


def test_interleaved_calls_keep_their_own_arguments() -> None:
    events = told(begin(MESSAGES), streamed(INTERLEAVED, finish="tool_calls"))
    assert [one.get("input") for one in accumulated(events)["content"]] == [{"x": 1}, {}]
    done = told(begin(RESPONSES), streamed(INTERLEAVED, finish="tool_calls"))[-1]
    assert [one["arguments"] for one in done["response"]["output"]] == ['{"x":1}', "{}"]


def test_a_call_ends_when_the_next_begins_if_it_is_whole() -> None:
    calls = [{"tool_calls": [{**one, "index": place}]} for place, one in enumerate(CALLS)]
    kinds = [
        (one["type"].removeprefix("content_block_"), one["index"])
        for one in told(begin(MESSAGES), streamed(calls))
        if "index" in one
    ]
    assert kinds == [("start", 0), ("delta", 0), ("stop", 0), ("start", 1), ("stop", 1)]


@pytest.mark.parametrize("bridge", [MESSAGES, RESPONSES], ids=["messages", "responses"])
def test_a_call_that_goes_on_after_its_end_is_no_answer(bridge: Bridge) -> None:
    further = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    calls = [{"tool_calls": [{**one, "index": place}]} for place, one in enumerate(CALLS)]
    with pytest.raises(Unreadable):
        told(begin(bridge), streamed([*calls, further]))
    blank = {"tool_calls": [{"index": 0, "function": {"arguments": "\n"}}]}
    told(begin(bridge), streamed([*calls, blank]))


FOUR_CALLS = [*({"tool_calls": [{**one, "index": at}]} for at, one in enumerate(CALLS * 2))]
LONG = [{"reasoning": "hm"}, {"content": "so "}, {"content": "far"}, {"refusal": "no"}, *FOUR_CALLS]


@pytest.mark.parametrize("most", [0, 602, 905, 2_000, 3_500])
def test_a_response_too_long_to_be_kept_is_told_all_the_same(most: int) -> None:
    """What repeats it has a beginning of it, and says so."""
    whole, events = (
        told(ResponseTelling(NOTHING, most_kept=size), streamed(LONG)) for size in (10_000, most)
    )
    once = [[one for one in seen if "delta" in one["type"]] for seen in (whole, events)]
    assert [{**one, "sequence_number": 0} for one in once[1]] == [
        {**one, "sequence_number": 0} for one in once[0]
    ]
    counts = [sorted(one["type"] for one in seen) for seen in (whole, events)]
    assert counts[0] == counts[1]
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == "response.completed"
    assert last["response"]["is_output_cut"] is True
    assert "is_output_cut" not in whole[-1]["response"]
    assert words_of(whole[-1]).startswith(words_of(last))


def words_of(event: dict[str, Any]) -> str:
    """Ids and texts of a response, one after the other."""
    items = event["response"]["output"]
    return "".join(item["id"] + "".join(map(_text_of, item.get("content", ()))) for item in items)


def _text_of(part: dict[str, Any]) -> str:
    return part["refusal"] if part["type"] == "refusal" else part["text"]


def test_of_a_response_so_many_characters_are_kept() -> None:
    deltas = [{"content": one} for one in ("abc", "def", "g")]
    events = told(ResponseTelling(NOTHING, most_kept=905), streamed(deltas))
    assert [one["delta"] for one in events if "delta" in one] == ["abc", "def", "g"]
    kept = [one["text"] for one in events if one["type"] == "response.output_text.done"]
    assert kept == [events[-1]["response"]["output"][0]["content"][0]["text"]] == ["abc"]


@pytest.mark.parametrize("most", [0, 6, 7, 100])
def test_calls_too_long_to_be_kept_end_with_their_message(most: int) -> None:
    events = told(MessageTelling(NOTHING, most_kept=most), streamed(FOUR_CALLS))
    assert (
        accumulated(events)["content"]
        == accumulated(told(begin(MESSAGES), streamed(FOUR_CALLS)))["content"]
    )
    stops = [one["index"] for one in events if one["type"] == "content_block_stop"]
    assert sorted(stops) == [0, 1, 2, 3]


@unhurried
@given(st.data(), messages())
def test_a_stream_tells_what_a_whole_answer_tells(data: st.DataObject, message: Any) -> None:
    chunks = streamed(data.draw(chunked(message)))
    answer = whole(message)
    assert accumulated(told(begin(MESSAGES), chunks)) == tell(MESSAGES, answer)
    events = told(begin(RESPONSES), chunks)
    assert events[-1]["response"] == tell(RESPONSES, answer)
    assert [one["sequence_number"] for one in events] == list(range(len(events)))


@unhurried
@given(messages())
def test_an_answer_that_is_sent_back_is_what_chat_had_answered(message: Any) -> None:
    """But for how the arguments of calls are written in a message, where they are an object."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "so"}
        for call in message.get("tool_calls", ())
    ]
    expected = [ASKED, {**message, "content": message["content"] or _nothing_in(message)}, *results]
    turn = tell(MESSAGES, whole(message))["content"]
    outcomes = [
        {"type": "tool_result", "tool_use_id": one["tool_call_id"], "content": "so"}
        for one in results
    ]
    turns = [ASKED, {"role": "assistant", "content": turn}]
    turns += [{"role": "user", "content": outcomes}] if outcomes else []
    turns.append(ASKED)
    assert said_in_chat(MESSAGES, {"max_tokens": 1, "messages": turns}) == [*expected, ASKED]
    output = tell(RESPONSES, whole(message))["output"]
    outcomes = [
        {"type": "function_call_output", "call_id": one["tool_call_id"], "output": "so"}
        for one in results
    ]
    items = said_in_chat(RESPONSES, {"input": [ASKED, *output, *outcomes]})
    assert items == (expected if output else [ASKED])


def _nothing_in(message: Any) -> str | None:
    return None if "tool_calls" in message else ""


def said_in_chat(bridge: Bridge, document: dict[str, Any]) -> object:
    members = {name: msgspec.Raw(msgspec.json.encode(one)) for name, one in document.items()}
    return bridge.say(members, reasoning="reasoning_content").members["messages"]


COUNTS = st.integers(0, 10**6)


@unhurried
@given(COUNTS, COUNTS, st.none() | COUNTS, st.none() | COUNTS)
def test_a_usage_that_is_told_is_read_as_what_it_was(
    prompt: int, completion: int, cached: int | None, reasoning: int | None
) -> None:
    known = None if cached is None else min(cached, prompt)
    usage = Usage(prompt, completion, known, reasoning)
    answer = whole({"content": "a"})
    message = usage_of(Endpoint.MESSAGES, tell(MESSAGES, answer, usage=usage)["usage"])
    assert message == Usage(prompt, completion, known)
    response = usage_of(Endpoint.RESPONSES, tell(RESPONSES, answer, usage=usage)["usage"])
    assert response == Usage(prompt, completion, known or 0, reasoning or 0)

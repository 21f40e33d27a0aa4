"""Whatever a caller or a worker writes is told, or refused as what it is: no other failure."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import Endpoint
from inference.decisions.bridging.base import Said
from inference.decisions.bridging.documents import Untranslatable
from inference.decisions.bridging.pieces import Pieces, Unreadable, head_of, read_answer
from inference.decisions.bridging.registry import REGISTRY
from tests.decisions.chats import unhurried

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
MESSAGE: dict[str, Any] = {
    "max_tokens": 9,
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "base64", "media_type": "i", "data": "x"}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t", "signature": ""},
            {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": [
                {"type": "text", "text": "b"}]},
        ]},
    ],
    "tools": [{"name": "f", "input_schema": {}, "description": "d", "type": "custom"}],
    "tool_choice": {"type": "tool", "name": "f"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "metadata": {"user_id": "u"},
    "stop_sequences": ["x"],
    "thinking": {"type": "disabled"},
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "instructions": "s",
    "input": [
        {"role": "user", "content": [
            {"type": "input_text", "text": "a"},
            {"type": "input_image", "image_url": "u", "detail": "low"},
        ]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_text", "text": "b"}]},
    ],
    "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "max_output_tokens": 9,
    "stream_options": {"include_obfuscation": False},
}  # fmt: skip
COMPLETION: dict[str, Any] = {
    "model": "m",
    "created": 7,
    "choices": [
        {
            "index": 0,
            "message": {
                "content": "a",
                "reasoning": "t",
                "refusal": "no",
                "tool_calls": [
                    {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            "finish_reason": "stop",
            "stop_reason": "x",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


@st.composite
def mangled(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with something else in place of one of its values, or of one left out."""
    copy: Any = msgspec.json.decode(msgspec.json.encode(document))
    places = list(_places(copy))
    holder, key = draw(st.sampled_from(places))
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(JSON | st.sampled_from([{"type": "text", "text": "z"}, "auto", 1]))
    return copy


def _places(value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


@pytest.mark.parametrize(
    ("endpoint", "document"),
    [(Endpoint.MESSAGES, MESSAGE), (Endpoint.RESPONSES, RESPONSE)],
    ids=["messages", "responses"],
)
@unhurried
@given(data=st.data())
def test_any_request_is_said_or_refused_at_a_place_it_has(
    endpoint: Endpoint, document: dict[str, Any], data: st.DataObject
) -> None:
    bridge = REGISTRY[endpoint]
    assert say(bridge.say, document).members["messages"]
    given_document = data.draw(mangled(document))
    try:
        said = say(bridge.say, given_document)
    except Untranslatable as refused:
        first = refused.param.replace("[", ".").split(".")[0]
        assert first in document or first in given_document
    else:
        msgspec.json.encode(said.members)


def say(bridge_say: Any, document: dict[str, Any]) -> Said:
    members = {name: msgspec.Raw(msgspec.json.encode(one)) for name, one in document.items()}
    said: Said = bridge_say(members, reasoning="reasoning")
    return said


@pytest.mark.parametrize("endpoint", [Endpoint.MESSAGES, Endpoint.RESPONSES])
@unhurried
@given(data=st.data())
def test_any_answer_is_told_or_unreadable(endpoint: Endpoint, data: st.DataObject) -> None:
    bridge = REGISTRY[endpoint]
    bodies = [msgspec.json.encode(data.draw(mangled(COMPLETION))) for _ in range(2)]
    with suppress(Unreadable):
        told = bridge.tell(bodies[0], answer_id="r1", at=7, said=Said({}))
        assert set(told) >= {"id", "model", "usage"}
        msgspec.json.encode(told)
    assert bridge.telling is not None
    telling, taken = bridge.telling(Said({})), Pieces("r1")
    with suppress(Unreadable):
        events = telling.begin(head_of(read_answer(bodies[0]), answer_id="r1", at=7), None)
        for body in bodies:
            for piece in taken.of(read_answer(body)):
                events += telling.add(piece)
        taken.end()
        events += telling.end(taken.ending, None)
        for one in events:
            msgspec.json.encode(one)

"""Chat's answers taken apart, and counts of tokens, which are no answers of chat's."""

import msgspec
import pytest

from inference.contract.kinds import Endpoint
from inference.decisions.bridging.base import Said
from inference.decisions.bridging.documents import Untranslatable
from inference.decisions.bridging.pieces import (
    MOST_KEPT,
    Arguments,
    Call,
    Ending,
    Head,
    Pieces,
    Text,
    Thought,
    Unreadable,
    head_of,
    read_answer,
)
from inference.decisions.bridging.registry import REGISTRY
from inference.gateway.streaming import MAX_FRAME_BYTES
from tests.decisions.chats import chunk

ASKED = {"role": "user", "content": "ping"}


def test_calls_without_places_ids_or_texts_are_told_apart() -> None:
    taken = Pieces("r1")
    first = {"tool_calls": [{"function": {"name": "f", "arguments": ""}}]}
    more = {"tool_calls": [{"function": {"arguments": "{}"}}]}
    second = {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}]}
    found = [piece for one in (first, more, second) for piece in taken.of(chunk(one))]
    assert found == [
        Call(0, "call_r1_0", "f"),
        Arguments(0, "{}"),
        Call(1, "b", "g"),
        Arguments(1, '{"x":1}'),
    ]
    taken.end()


def test_a_call_waits_for_its_name_and_is_no_answer_without() -> None:
    taken = Pieces("r1")
    assert taken.of(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})) == []
    with pytest.raises(Unreadable):
        taken.end()
    named = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}]}
    assert taken.of(chunk(named)) == [Call(0, "call_r1_0", "f"), Arguments(0, "{}")]


def test_calls_take_no_more_than_there_is_room_for() -> None:
    taken = Pieces("r1")
    unnamed = {"tool_calls": [{"index": 0, "function": {"arguments": "x" * 1_000_000}}]}
    for _ in range(MOST_KEPT // 1_000_300):
        assert taken.of(chunk(unnamed)) == []
    with pytest.raises(Unreadable):
        taken.of(chunk(unnamed))
    assert MOST_KEPT == MAX_FRAME_BYTES


def test_what_is_not_of_the_answer_is_not_told() -> None:
    taken = Pieces("r1")
    assert taken.of(chunk({"role": "assistant", "content": ""})) == []
    other = {"choices": [{"index": 1, "delta": {"content": "a"}, "finish_reason": "length"}]}
    assert taken.of(read_answer(msgspec.json.encode(other))) == []
    assert taken.ending == Ending()
    assert taken.of(chunk({"reasoning": "b", "content": "c"})) == [Thought("b"), Text("c")]


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b'{"choices":5}', b'{"choices":[{"delta":{"content":[]}}]}', b"[" * 100_000],
)
def test_what_is_no_answer_of_chats_is_unreadable(payload: bytes) -> None:
    with pytest.raises(Unreadable):
        read_answer(payload)


def test_an_answer_that_does_not_say_when_it_was_made_was_made_when_it_was_asked_for() -> None:
    assert head_of(read_answer(b"{}"), answer_id="r1", at=9) == Head("r1", "", 9)
    told_more = read_answer(b'{"model":"m","created":5,"service_tier":"flex"}')
    assert head_of(told_more, answer_id="r1", at=9) == Head("r1", "m", 5, "flex")


def test_a_count_is_what_a_tokenizer_counts() -> None:
    bridge = REGISTRY[Endpoint.COUNT_TOKENS]
    tools = [{"name": "f", "input_schema": {}}]
    document = {"model": "m", "messages": [ASKED], "system": "s", "tools": tools}
    members = {name: msgspec.Raw(msgspec.json.encode(one)) for name, one in document.items()}
    said = bridge.say(members, reasoning="reasoning")
    assert said == Said(
        {
            "messages": [{"role": "system", "content": "s"}, ASKED],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        }
    )
    body = b'{"count":7,"max_model_len":9,"tokens":[1]}'
    assert bridge.tell(body, answer_id="r1", at=0, said=said) == {"input_tokens": 7}
    for unreadable in (b"{}", b'{"count":"7"}'):
        with pytest.raises(Unreadable):
            bridge.tell(unreadable, answer_id="r1", at=0, said=said)
    with pytest.raises(Untranslatable, match="`container`"):
        bridge.say({**members, "container": msgspec.Raw(b'"c"')}, reasoning="reasoning")

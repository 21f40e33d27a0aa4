"""OpenAI's responses said in chat: exact values, and what is refused by name."""

from typing import Any

import msgspec
import pytest

from inference.decisions.bridging.base import Said
from inference.decisions.bridging.documents import Untranslatable
from inference.decisions.bridging.responses import say_response

ASKED = [{"role": "user", "content": "ping"}]
CALL = {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": "{}"}
OTHER_CALL = {**CALL, "call_id": "c2", "id": "fc_2", "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
OTHER_OUTPUT = {**OUTPUT, "call_id": "c2"}
ANSWER = {"role": "assistant", "content": "so far"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}


def said(**fields: Any) -> Said:
    document = {"model": "m", "input": "ping", **fields}
    members = {name: msgspec.Raw(msgspec.json.encode(one)) for name, one in document.items()}
    return say_response(members, reasoning="reasoning_content")


def chat_call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "clock", "arguments": "{}"}}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "noon"}


def test_the_least_request_is_its_conversation_and_what_the_answer_repeats() -> None:
    assert said() == Said(
        {"messages": ASKED},
        None,
        {
            "background": False,
            "previous_response_id": None,
            "store": False,
            "truncation": "disabled",
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "prompt_cache_key": None,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": None,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "user": None,
        },
    )


TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {}, "strict": True},
}
SHAPE = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("given", "members"),
    [
        ({"temperature": 0, "user": "u"}, {"temperature": 0, "user": "u"}),
        ({"store": True, "background": False, "truncation": "disabled", "include": []}, {}),
        ({"metadata": {"a": "b"}, "stream": True, "top_logprobs": 0}, {}),
        ({"stream_options": {"include_obfuscation": False}}, {}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
        ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}),
        ({"text": {"verbosity": "low", "format": {"type": "text"}}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}},
         {"response_format": {"type": "json_object"}}),
        ({"text": {"format": SHAPE}},
         {"response_format": {"type": "json_schema", "json_schema": {
             "name": "n", "schema": {"type": "object"}, "strict": True}}}),
        ({"tools": [TOOL]}, {"tools": [CHAT_TOOL]}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "function", "name": "f"}},
         {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"min_p": 0.1}, {"min_p": msgspec.Raw(b"0.1")}),
    ],
)  # fmt: skip
def test_members_are_carried_over(given: dict[str, Any], members: dict[str, Any]) -> None:
    assert said(**given).members == {"messages": ASKED, **members}


def test_the_answer_repeats_what_was_asked_for() -> None:
    given = {"metadata": {"a": "b"}, "tools": [TOOL], "temperature": 0.5, "instructions": "s"}
    told = said(**given, max_output_tokens=9)
    assert told.output_tokens_max == 9
    assert told.told.items() >= {**given, "max_output_tokens": 9, "store": False}.items()


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ([{"role": "developer", "content": "s"}, *ASKED],
         [{"role": "system", "content": "s"}, *ASKED]),
        ([{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:x"},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        ]}],
         [{"role": "user", "content": [
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:x"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        ]}]),
        ([*ASKED, {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                   "content": [{"type": "output_text", "text": "so far", "annotations": [],
                                "logprobs": []}]}],
         [*ASKED, ANSWER]),
        ([*ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
         [*ASKED, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]),
        # one turn of the assistant's is one message
        ([*ASKED, THOUGHT, ANSWER, CALL, OTHER_CALL, OTHER_OUTPUT, OUTPUT],
         [*ASKED, {"role": "assistant", "content": "so far", "reasoning_content": "hm",
                   "tool_calls": [chat_call("c1"), chat_call("c2")]},
          result("c2"), result("c1")]),
        ([*ASKED, CALL, OUTPUT, OTHER_CALL, OTHER_OUTPUT],
         [*ASKED, {"role": "assistant", "content": None, "tool_calls": [chat_call("c1")]},
          result("c1"),
          {"role": "assistant", "content": None, "tool_calls": [chat_call("c2")]},
          result("c2")]),
        # what came after its calls in a stream is of the same turn all the same
        ([*ASKED, CALL, ANSWER, OUTPUT],
         [*ASKED, {**ANSWER, "tool_calls": [chat_call("c1")]}, result("c1")]),
        ([*ASKED, ANSWER, ANSWER], [*ASKED, ANSWER, ANSWER]),
        ([*ASKED, ANSWER, THOUGHT, ANSWER],
         [*ASKED, ANSWER, {**ANSWER, "reasoning_content": "hm"}]),
        ([*ASKED, CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "noon"}]}],
         [*ASKED, {"role": "assistant", "content": None, "tool_calls": [chat_call("c1")]},
          result("c1")]),
    ],
)  # fmt: skip
def test_conversations_are_carried_over(given: list[Any], messages: list[Any]) -> None:
    assert said(input=given).members["messages"] == messages


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["reasoning.encrypted_content"]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"max_tool_calls": 2}, "max_tool_calls"),
        ({"never_heard_of": 0}, "never_heard_of"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"instructions": ["s"]}, "instructions"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [TOOL, {"type": "custom", "name": "c"}]}, "tools[1].type"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"input": ["ping"]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "input[0].type"),
        ({"input": [{"type": 5}]}, "input[0].type"),
        ({"input": [{"type": "web_search_call", "id": "w"}]}, "input[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": ["user"], "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_video"}]}]},
         "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
         "input[0].content[0].file_id"),
        ({"input": [{"role": "system", "content": [{"type": "input_image", "image_url": "u"}]}]},
         "input[0].content[0].type"),
        ({"input": [{**THOUGHT, "encrypted_content": "x"}]}, "input[0].encrypted_content"),
        ({"input": [{**THOUGHT, "summary": [{"type": "summary_text", "text": "x"}]}]},
         "input[0].summary"),
        ({"input": [CALL, {**OUTPUT, "output": [{"type": "input_image", "image_url": "u"}]}]},
         "input[1].output[0].type"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused_by_name(given: dict[str, Any], path: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        said(**given)
    assert refused.value.param == path


@pytest.mark.parametrize(
    ("given", "path", "problem"),
    [
        (
            [OUTPUT],
            "input[0].call_id",
            "names no tool call of the turn before it that has no result yet",
        ),
        (
            [CALL, OUTPUT, OUTPUT],
            "input[2].call_id",
            "names no tool call of the turn before it that has no result yet",
        ),
        ([CALL], "input[0].call_id", "has no result: each tool call must be followed by one"),
        (
            [CALL, *ASKED, OUTPUT],
            "input[1]",
            "comes before the results of the tool calls c1, which must be next",
        ),
        (
            [CALL, OTHER_CALL, OUTPUT, ANSWER, OTHER_OUTPUT],
            "input[3]",
            "comes before the results of the tool calls c2, which must be next",
        ),
        ([CALL, CALL], "input[1].call_id", "is the id of another tool call of the same turn"),
    ],
)
def test_the_order_of_tool_calls_and_results_is_kept(
    given: list[Any], path: str, problem: str
) -> None:
    with pytest.raises(Untranslatable) as refused:
        said(input=given)
    assert (refused.value.param, str(refused.value)) == (path, f"`{path}` {problem}.")

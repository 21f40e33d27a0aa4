"""Anthropic's messages said in chat: exact values, and what is refused by name."""

from typing import Any

import msgspec
import pytest

from inference.decisions.bridging.base import Said
from inference.decisions.bridging.documents import Untranslatable
from inference.decisions.bridging.messages import say_message

PICTURE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
USE = {"type": "tool_use", "id": "t1", "name": "clock", "input": {"zone": "UTC"}}
OTHER_USE = {**USE, "id": "t2"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "noon"}
CALL = {
    "id": "t1",
    "type": "function",
    "function": {"name": "clock", "arguments": '{"zone":"UTC"}'},
}
ASKED = [{"role": "user", "content": "ping"}]
CALLED = [*ASKED, {"role": "assistant", "content": [USE]}]
CALLED_IN_CHAT = [*ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}]


def said(*, reasoning: str = "reasoning_content", **fields: Any) -> Said:
    document = {"model": "m", "max_tokens": 9, "messages": ASKED, **fields}
    members = {name: msgspec.Raw(msgspec.json.encode(one)) for name, one in document.items()}
    return say_message(members, reasoning=reasoning)


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def test_the_least_request_is_its_conversation_and_its_bound() -> None:
    assert said() == Said({"messages": ASKED}, 9, {"stop_sequences": []})


@pytest.mark.parametrize(
    ("given", "members"),
    [
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"metadata": {}}, {}),
        ({"stream": True, "service_tier": "auto", "thinking": {"type": "disabled"}}, {}),
        ({"cache_control": {"type": "ephemeral"}}, {}),
        ({"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "output",
                        "schema": {"type": "object"},
                        "strict": True,
                    },
                }
            },
        ),
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
            {
                "tool_choice": {"type": "function", "function": {"name": "f"}},
                "parallel_tool_calls": False,
            },
        ),
        (
            {
                "tools": [
                    {
                        "type": "custom",
                        "name": "f",
                        "description": "d",
                        "input_schema": {"type": "object", "maximum": 2**53 + 1},
                        "strict": True,
                        "cache_control": {"type": "ephemeral"},
                    }
                ]
            },
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "f",
                            "description": "d",
                            "parameters": {"type": "object", "maximum": 2**53 + 1},
                            "strict": True,
                        },
                    }
                ]
            },
        ),
        (
            {"top_k": 3, "chat_template_kwargs": {"x": 1e-7}},
            {"top_k": msgspec.Raw(b"3"), "chat_template_kwargs": msgspec.Raw(b'{"x":1e-7}')},
        ),
    ],
)
def test_members_are_carried_over(given: dict[str, Any], members: dict[str, Any]) -> None:
    assert said(**given).members == {"messages": ASKED, **members}


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"system": "s"}, [{"role": "system", "content": "s"}, *ASKED]),
        (
            {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            [
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
                *ASKED,
            ],
        ),
        (
            {
                "messages": [
                    user(
                        {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
                        {"type": "image", "source": PICTURE},
                        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
                    )
                ]
            },
            [
                user(
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
                )
            ],
        ),
        ({"messages": [user({"type": "text", "text": "ping"})]}, ASKED),
        ({"messages": [{"role": "user", "content": ""}]}, [{"role": "user", "content": ""}]),
        (
            {"messages": [*ASKED, {"role": "assistant", "content": "so far"}, *ASKED]},
            [*ASKED, {"role": "assistant", "content": "so far"}, *ASKED],
        ),
        (
            {"messages": [*ASKED, {"role": "assistant", "content": []}, *ASKED]},
            [*ASKED, {"role": "assistant", "content": ""}, *ASKED],
        ),
        ({"messages": [*CALLED, user(RESULT)]}, [
            *CALLED_IN_CHAT, {"role": "tool", "tool_call_id": "t1", "content": "noon"}
        ]),
        (
            {
                "messages": [
                    *CALLED,
                    user({**RESULT, "is_error": True}, {"type": "text", "text": "so?"}),
                ]
            },
            [
                *CALLED_IN_CHAT,
                {"role": "tool", "tool_call_id": "t1", "content": "Error: noon"},
                {"role": "user", "content": "so?"},
            ],
        ),
        (
            {
                "messages": [
                    *CALLED,
                    user({"type": "tool_result", "tool_use_id": "t1", "is_error": True}),
                ]
            },
            [*CALLED_IN_CHAT, {"role": "tool", "tool_call_id": "t1", "content": "Error: "}],
        ),
        (
            {
                "messages": [
                    *ASKED,
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "hm", "signature": ""},
                            {"type": "text", "text": "let me see"},
                            USE,
                        ],
                    },
                    user({**RESULT, "content": [{"type": "text", "text": "noon"}]}),
                ]
            },
            [
                *ASKED,
                {
                    "role": "assistant",
                    "content": "let me see",
                    "reasoning_content": "hm",
                    "tool_calls": [CALL],
                },
                {"role": "tool", "tool_call_id": "t1", "content": "noon"},
            ],
        ),
    ],
)  # fmt: skip
def test_conversations_are_carried_over(given: dict[str, Any], messages: list[Any]) -> None:
    assert said(**given).members["messages"] == messages


def test_results_may_come_in_several_messages_and_in_any_order() -> None:
    turn = {"role": "assistant", "content": [USE, OTHER_USE]}
    other = {**RESULT, "tool_use_id": "t2"}
    told = said(messages=[*ASKED, turn, user(other), user(RESULT)]).members["messages"]
    assert isinstance(told, list)
    assert [one.get("tool_call_id") for one in told[2:]] == ["t2", "t1"]


def test_thoughts_go_where_the_server_knows_them() -> None:
    turn = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
    told = said(messages=[*ASKED, turn, *ASKED], reasoning="reasoning").members["messages"]
    assert isinstance(told, list)
    assert told[1] == {"role": "assistant", "content": "", "reasoning": "hm"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
        ({"container": "c"}, "container"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
        ({"context_management": {}}, "context_management"),
        ({"n": 2}, "n"),
        ({"never_heard_of": 0}, "never_heard_of"),
        ({"service_tier": "standard_only"}, "service_tier"),
        ({"metadata": {"user_id": "u", "more": 1}}, "metadata.more"),
        ({"output_config": {"format": {"type": "grammar"}}}, "output_config.format.type"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0.type"),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema"),
        ({"tools": [{"name": "f", "input_schema": {}, "input_examples": [{}]}]},
         "tools.0.input_examples"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"stop_sequences": [1]}, "stop_sequences.0"),
        ({"system": [{"type": "image", "source": PICTURE}]}, "system.0.type"),
        ({"messages": [*ASKED, {"role": "assistant", "content": "The"}]}, "messages.1"),
        ({"messages": ["ping"]}, "messages.0"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        ({"messages": [{**ASKED[0], "name": "ann"}]}, "messages.0.name"),
        ({"messages": [user({"type": "document", "source": PICTURE})]},
         "messages.0.content.0.type"),
        ({"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]},
         "messages.0.content.0.source.type"),
        ({"messages": [user({"type": "text", "text": "a", "citations": [{}]})]},
         "messages.0.content.0.citations"),
        ({"messages": [*CALLED, user({**RESULT, "content": [{"type": "image"}]})]},
         "messages.2.content.0.content.0.type"),
        ({"messages": [*ASKED, {"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "x"}]}]}, "messages.1.content.0.type"),
        ({"messages": [*ASKED, {"role": "assistant", "content": [{**USE, "input": "{}"}]}]},
         "messages.1.content.0.input"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused_by_name(given: dict[str, Any], path: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        said(**given)
    assert refused.value.param == path
    assert str(refused.value).startswith(f"`{path}` ")


@pytest.mark.parametrize(
    ("messages", "path", "problem"),
    [
        (
            CALLED,
            "messages.1.content.0.id",
            "has no result: each tool call must be followed by one",
        ),
        (
            [*CALLED, *ASKED],
            "messages.2.content",
            "comes before the results of the tool calls t1, which must be next",
        ),
        (
            [*CALLED, {"role": "assistant", "content": "so"}],
            "messages.2.content",
            "comes before the results of the tool calls t1, which must be next",
        ),
        (
            [*CALLED, user({"type": "text", "text": "a"}, RESULT)],
            "messages.2.content.1",
            "must come before everything else in its message",
        ),
        (
            [user(RESULT)],
            "messages.0.content.0.tool_use_id",
            "names no tool call of the turn before it that has no result yet",
        ),
        (
            [*CALLED, user(RESULT), user(RESULT)],
            "messages.3.content.0.tool_use_id",
            "names no tool call of the turn before it that has no result yet",
        ),
        (
            [*CALLED, user({**RESULT, "tool_use_id": "t9"})],
            "messages.2.content.0.tool_use_id",
            "names no tool call of the turn before it that has no result yet",
        ),
        (
            [*ASKED, {"role": "assistant", "content": [USE, USE]}],
            "messages.1.content.1.id",
            "is the id of another tool call of the same turn",
        ),
    ],
)
def test_the_order_of_tool_calls_and_results_is_kept(
    messages: list[Any], path: str, problem: str
) -> None:
    with pytest.raises(Untranslatable) as refused:
        said(messages=messages)
    assert (refused.value.param, str(refused.value)) == (path, f"`{path}` {problem}.")


def test_an_engine_that_is_told_to_goes_on_with_what_the_assistant_began() -> None:
    begun = [*ASKED, {"role": "assistant", "content": "The"}]
    assert said(messages=begun, continue_final_message=True).members == {
        "messages": begun,
        "continue_final_message": msgspec.Raw(b"true"),
    }

"""The official clients at a real engine that is asked for chats alone."""

import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.test_clients import CONVERSATION, QUESTION, booked, claude
from tests.installation import Installation

pytestmark = pytest.mark.engine

__all__ = ["claude"]

ROUTE = "chats-alone"
DIRECT_POOL = "smollm2-direct"
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
ROUTE_KNOWN_S = 10


@pytest.fixture(scope="module", autouse=True)
def route(installation: Installation) -> Iterator[None]:
    """A route to the demo's static pool, of which only chat and the tokenizer are offered."""
    pool = installation.api("GET", f"/pools/?name={DIRECT_POOL}")["results"][0]["id"]
    installation.api("PATCH", f"/pools/{pool}/", {"endpoints": ["chat", "tokenize"]})
    targets = [{"pool": pool, "weight": 1}]
    made = installation.api("POST", "/routes/", {"name": ROUTE, "targets": targets})["id"]
    try:
        yield
    finally:
        installation.api("DELETE", f"/routes/{made}/")
        installation.api("PATCH", f"/pools/{pool}/", {"endpoints": []})


@pytest.fixture(autouse=True)
def known(client: openai.OpenAI) -> None:
    """Gateways know a route within a second, and not before."""
    deadline = time.monotonic() + ROUTE_KNOWN_S
    while ROUTE not in {one.id for one in client.models.list()}:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def bridges(installation: Installation, request_id: str) -> list[str | None]:
    """In whose words each attempt was asked, by the ledger's decision record."""
    row = installation.wait_for_request(request_id)
    return [one.get("bridge") for one in row["decision"]["attempts"]]


def test_a_message_is_answered_streamed_counted_and_booked(
    installation: Installation, claude: anthropic.Anthropic
) -> None:
    wish: Any = {"model": ROUTE, "messages": CONVERSATION, "max_tokens": 20}
    wish |= {"system": "Be brief.", "extra_body": {"temperature": 0, "top_k": 1}}
    raw = claude.messages.with_raw_response.create(**wish)
    answer = raw.parse()
    assert answer.content[0].type == "text"
    assert "Paris" in answer.content[0].text
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    request_id = raw.headers["request-id"]
    assert booked(installation, request_id, "messages") == used
    assert bridges(installation, request_id) == ["chat"]
    with claude.messages.stream(**wish) as stream:
        assert "Paris" in "".join(stream.text_stream)
        final = stream.get_final_message()
        request_id = stream.response.headers["request-id"]
    assert (final.usage.input_tokens, final.usage.output_tokens) == used
    assert booked(installation, request_id, "messages") == used
    counted = claude.messages.with_raw_response.count_tokens(
        model=ROUTE, messages=CONVERSATION, system="Be brief."
    )
    assert counted.parse().input_tokens == used[0]
    assert bridges(installation, counted.headers["request-id"]) == ["tokenize"]


def test_a_response_is_answered_streamed_and_booked(
    installation: Installation, client: openai.OpenAI
) -> None:
    wish: Any = {"model": ROUTE, "input": QUESTION, "temperature": 0, "max_output_tokens": 20}
    raw = client.responses.with_raw_response.create(**wish)
    answer = raw.parse()
    assert "Paris" in answer.output_text
    assert answer.usage is not None
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert booked(installation, raw.headers["x-request-id"], "responses") == used
    with client.responses.stream(**wish) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert "Paris" in final.output_text
    assert final.usage is not None
    assert (final.usage.input_tokens, final.usage.output_tokens) == used
    cut = client.responses.create(**{**wish, "max_output_tokens": 1})
    assert cut.incomplete_details is not None
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_an_engine_takes_calls_results_and_thoughts_as_they_are_said(
    client: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    call: dict[str, Any] = {"id": "call_1", "name": "weather", "input": {"city": "Paris"}}
    turn = [
        {"type": "thinking", "thinking": "Where is it?", "signature": ""},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", **call},
    ]
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "rain"}
    message = claude.messages.create(
        model=ROUTE,
        max_tokens=5,
        messages=[
            *CONVERSATION,
            {"role": "assistant", "content": turn},
            {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
        ],
        tools=[{"name": "weather", "input_schema": TOOL}],
        tool_choice={"type": "none"},
    )
    assert message.stop_reason in ("max_tokens", "end_turn")
    items: Any = [
        *CONVERSATION,
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
    ]
    shape: Any = {"type": "json_schema", "name": "city", "schema": TOOL, "strict": True}
    response = client.responses.create(
        model=ROUTE, input=items, max_output_tokens=64, text={"format": shape}
    )
    assert response.output_text.startswith("{")

"""The official clients at a real engine: responses and messages, plain, streamed and refused."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.installation import Installation

pytestmark = pytest.mark.engine

QUESTION = "What is the capital of France?"
CONVERSATION: list[Any] = [{"role": "user", "content": QUESTION}]
TOO_LONG = "water " * 5_000


@pytest.fixture
def claude(installation: Installation) -> Iterator[anthropic.Anthropic]:
    """Anthropic's official client, pointed at the gateway with the demo key."""
    demo = installation.demo
    with anthropic.Anthropic(base_url=demo["GATEWAY_URL"], api_key=demo["API_KEY"]) as made:
        yield made


def booked(installation: Installation, request_id: str, endpoint: str) -> tuple[int, int]:
    """The tokens of a request that went well, as the ledger has them."""
    row = installation.wait_for_request(request_id)
    assert (row["endpoint"], row["outcome"]) == (endpoint, "ok")
    assert [one["kind"] for one in row["charges"]] == ["final"]
    return row["prompt_tokens"], row["completion_tokens"]


def test_a_response_is_answered_streamed_and_booked_as_the_engine_counted(
    installation: Installation, client: openai.OpenAI
) -> None:
    wish: Any = {"model": "chat", "input": QUESTION, "temperature": 0, "max_output_tokens": 20}
    raw = client.responses.with_raw_response.create(**wish, store=True)
    answer = raw.parse()
    assert "Paris" in answer.output_text
    assert answer.usage is not None
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert booked(installation, raw.headers["x-request-id"], "responses") == used
    streamed = client.responses.with_raw_response.create(**wish, stream=True)
    events = list(streamed.parse())
    assert "Paris" in "".join(
        one.delta for one in events if one.type == "response.output_text.delta"
    )
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.usage is not None
    assert (last.response.usage.input_tokens, last.response.usage.output_tokens) == used
    assert booked(installation, streamed.headers["x-request-id"], "responses") == used
    with pytest.raises(openai.NotFoundError, match="not stored"):
        client.responses.retrieve(answer.id)


def test_a_message_is_answered_streamed_counted_and_booked(
    installation: Installation, claude: anthropic.Anthropic
) -> None:
    wish: Any = {"model": "chat", "messages": CONVERSATION, "max_tokens": 20}
    wish |= {"extra_body": {"temperature": 0}}  # the client has no word of its own for it
    raw = claude.messages.with_raw_response.create(**wish)
    answer = raw.parse()
    assert answer.content[0].type == "text"
    assert "Paris" in answer.content[0].text
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert booked(installation, raw.headers["request-id"], "messages") == used
    with claude.messages.stream(**wish) as stream:
        assert "Paris" in "".join(stream.text_stream)
        final = stream.get_final_message()
        request_id = stream.response.headers["request-id"]
    assert (final.usage.input_tokens, final.usage.output_tokens) == used
    assert booked(installation, request_id, "messages") == used
    counted = claude.messages.with_raw_response.count_tokens(model="chat", messages=CONVERSATION)
    assert counted.parse().input_tokens == used[0]
    assert booked(installation, counted.headers["request-id"], "count_tokens") == (0, 0)


def test_what_the_engine_refuses_is_the_clients_own_error(
    client: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="chat", input=TOO_LONG)
    assert refused.value.code == "context_length_exceeded"
    with pytest.raises(anthropic.BadRequestError) as too_long:
        claude.messages.create(
            model="chat", max_tokens=9, messages=[{"role": "user", "content": TOO_LONG}]
        )
    assert (too_long.value.type, too_long.value.error_code) == (
        "invalid_request_error",
        "context_length_exceeded",
    )
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        claude.messages.create(model="chat", max_tokens=-1, messages=CONVERSATION)
    with pytest.raises(anthropic.NotFoundError) as unknown:
        claude.messages.create(model="nope", max_tokens=9, messages=CONVERSATION)
    assert unknown.value.error_code == "model_not_found"

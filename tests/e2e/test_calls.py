"""The endpoints beside chat at a real engine, and the rows that belong to them."""

from typing import Any

import openai
import pytest

from tests.installation import Installation, call_json, wait_until

pytestmark = pytest.mark.engine

TEXT = "The capital of France is"


def post(installation: Installation, path: str, **fields: object) -> Any:
    """Ask the gateway for something the official client has no word for."""
    url = f"{installation.demo['GATEWAY_URL']}{path}"
    return call_json("POST", url, installation.demo["API_KEY"], fields)


def test_texts_are_completed_and_booked_as_the_engine_counted(
    installation: Installation, client: openai.OpenAI
) -> None:
    raw = client.completions.with_raw_response.create(
        model="chat", prompt=[TEXT, "Water is"], n=2, echo=True, logprobs=1, max_tokens=4
    )
    answer = raw.parse()
    assert [one.index for one in answer.choices] == [0, 1, 2, 3]
    assert all(one.text.startswith((TEXT, "Water is")) for one in answer.choices)
    assert answer.choices[0].logprobs is not None
    row = installation.wait_for_request(raw.headers["x-request-id"])
    assert answer.usage is not None
    assert (row["endpoint"], row["outcome"]) == ("completions", "ok")
    assert (row["prompt_tokens"], row["completion_tokens"]) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert [one["kind"] for one in row["charges"]] == ["final"]
    echoed = client.completions.create(model="chat", prompt=TEXT, echo=True, max_tokens=0)
    assert echoed.choices[0].text == TEXT


def test_a_completions_stream_that_is_left_is_billed_for_every_prompt(
    installation: Installation, client: openai.OpenAI
) -> None:
    stream = client.completions.create(
        model="chat",
        prompt=[TEXT, "Water is"],
        max_tokens=400,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    event_id = stream.response.headers["x-request-id"]
    seen = {0: 0, 1: 0}
    for chunk in stream:
        assert chunk.usage is None
        seen[chunk.choices[0].index] += 1
        if min(seen.values()) >= 5:
            break
    stream.close()
    row = installation.wait_for_request(event_id)
    assert (row["outcome"], row["error_code"]) == ("cancelled", "client_left")
    prompts = sum(
        post(installation, "/tokenize", model="chat", prompt=prompt)["count"]
        for prompt in (TEXT, "Water is")
    )
    assert row["prompt_tokens"] == prompts
    assert sum(seen.values()) <= row["completion_tokens"] < 400
    assert row["first_token_ms"] > 0


def test_a_text_becomes_tokens_and_a_text_again(installation: Installation) -> None:
    tokens = post(installation, "/tokenize", model="chat", prompt=TEXT)
    assert tokens["count"] == len(tokens["tokens"]) > 1
    text = post(installation, "/v1/detokenize", model="chat", tokens=tokens["tokens"])
    assert text == {"prompt": TEXT}

    def rows_of_endpoint() -> Any:
        return installation.api("GET", "/requests/?last=15m&endpoint=detokenize")["results"]

    rows = wait_until(rows_of_endpoint, 10, "a row of the ledger")
    assert [
        (one["prompt_tokens"], one["completion_tokens"], one["cost_nanousd"]) for one in rows
    ] == [(0, 0, "0")]

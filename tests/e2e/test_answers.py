"""A real answer through the gateway and the ledger row that belongs to it."""

import re
import shlex
import subprocess
import urllib.error
import urllib.request
from decimal import Decimal

import openai
import pytest

from tests.e2e.conftest import FIRST_ANSWER_S, Restarted
from tests.installation import Installation, call_json, wait_until
from tests.upstream.fixtures import Upstream

pytestmark = pytest.mark.engine

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
DEMO_ROUTE = "chat"
ASKED_TOKENS = 1_500


def engine_counter(port: int, name: str, **labels: str) -> float:
    """The sum of an engine counter's series that carry these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(f"{name}{{") and all(pair in line for pair in wanted)
    )


def test_a_second_start_answers_soon_and_has_the_secrets_of_the_first(
    installation: Restarted,
) -> None:
    assert installation.first_answer_s < FIRST_ANSWER_S
    assert installation.kept


def test_a_plain_answer_names_paris_and_is_booked_as_the_engine_counted(
    installation: Installation, client: openai.OpenAI
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=DEMO_ROUTE, messages=QUESTION, temperature=0, max_tokens=20
    )
    answer = raw.parse()
    assert "Paris" in (answer.choices[0].message.content or "")
    row = installation.wait_for_request(raw.headers["x-request-id"])
    assert answer.usage is not None
    assert row["route_name"] == DEMO_ROUTE
    assert row["outcome"] == "ok"
    assert row["prompt_tokens"] == answer.usage.prompt_tokens
    assert row["completion_tokens"] == answer.usage.completion_tokens


def test_a_stream_the_client_did_not_ask_usage_for_is_booked_all_the_same(
    installation: Installation, client: openai.OpenAI
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=DEMO_ROUTE, messages=QUESTION, temperature=0, max_tokens=20, stream=True
    )
    chunks = list(raw.parse())
    assert "Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert [chunk.usage for chunk in chunks if chunk.usage is not None] == []
    row = installation.wait_for_request(raw.headers["x-request-id"])
    plain = client.chat.completions.create(
        model=DEMO_ROUTE, messages=QUESTION, temperature=0, max_tokens=20
    )
    assert plain.usage is not None
    assert row["prompt_tokens"] == plain.usage.prompt_tokens
    assert row["completion_tokens"] == plain.usage.completion_tokens
    assert Decimal(row["cost_nanousd"]) > 0
    assert row["first_token_ms"] > 0


def test_a_stream_with_usage_carries_it_once_at_the_end(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=DEMO_ROUTE,
            messages=QUESTION,
            temperature=0,
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert [(one.prompt_tokens > 0, one.completion_tokens) for one in usages] == [(True, 8)]
    assert chunks[-1].choices == []


def test_the_printed_curl_line_works_as_pasted(installation: Installation) -> None:
    lines = re.findall(r"^\s*(curl .*)$", installation.output.read_text(), re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", lines[-1]], capture_output=True, text=True, check=True, timeout=60
    )
    assert shlex.split(lines[-1])[0] == "curl"
    assert '"choices"' in done.stdout


def test_three_calls_put_any_openai_compatible_address_into_service(
    installation: Installation, upstream: Upstream
) -> None:
    pool = installation.api(
        "POST",
        "/pools/",
        {
            "name": "elsewhere",
            "provisioner": "static",
            "addresses": [upstream.base_url],
            "model": "scripted",
        },
    )
    installation.api(
        "POST", "/routes/", {"name": "mine", "targets": [{"pool": pool["name"], "weight": 1}]}
    )
    key = installation.api("POST", "/keys/", {"name": "my app"})["key"]
    url = f"{installation.demo['GATEWAY_URL']}/v1/chat/completions"
    body = {"model": "mine", "messages": [{"role": "user", "content": "ping"}]}

    def answered() -> object:
        try:
            return call_json("POST", url, key, body)
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return None

    answer = wait_until(answered, 3, "the new route to serve")
    assert answer["choices"][0]["message"]["content"] == "one two three four five"


def test_an_edited_route_sends_the_next_request_elsewhere(installation: Installation) -> None:
    route = next(
        one for one in installation.api("GET", "/routes/")["results"] if one["name"] == DEMO_ROUTE
    )
    before = route["targets"]
    only = before[1]["pool"]
    pool = next(one for one in installation.api("GET", "/pools/")["results"] if one["name"] == only)

    def is_ready() -> bool:
        workers = installation.api("GET", f"/pools/{pool['id']}/")["workers"]
        return [one["state"] for one in workers] == ["ready"]

    wait_until(is_ready, 10, f"{only} to be well")
    moved = [{**one, "weight": int(one["pool"] == only)} for one in before]
    installation.api("PATCH", f"/routes/{route['id']}/", {"targets": moved})
    try:

        def pool_of_next() -> str:
            event_id, _ = installation.chat(model=DEMO_ROUTE, max_tokens=1)
            return str(installation.wait_for_request(event_id)["pool_name"])

        wait_until(lambda: pool_of_next() == only, 10, f"requests to go to {only}")
    finally:
        installation.api("PATCH", f"/routes/{route['id']}/", {"targets": before})


def test_a_client_that_leaves_stops_the_engine(
    installation: Installation, client: openai.OpenAI, engine_port: int
) -> None:
    def running() -> float:
        return engine_counter(engine_port, "vllm:num_requests_running")

    generated_before = engine_counter(engine_port, "vllm:generation_tokens_total")
    stream = client.chat.completions.create(
        model=DEMO_ROUTE,
        messages=[{"role": "user", "content": "Count from one to a thousand in words."}],
        max_tokens=ASKED_TOKENS,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    event_id = stream.response.headers["x-request-id"]
    next(iter(stream))
    wait_until(lambda: running() == 1, 10, "the engine to work")
    stream.close()
    wait_until(lambda: running() == 0, 10, "the engine to stop")
    generated = engine_counter(engine_port, "vllm:generation_tokens_total") - generated_before
    assert generated < ASKED_TOKENS / 2
    row = installation.wait_for_request(event_id)
    assert (row["outcome"], row["error_code"]) == ("cancelled", "client_left")
    assert 0 < row["completion_tokens"] <= generated

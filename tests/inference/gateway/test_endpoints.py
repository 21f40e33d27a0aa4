"""Every endpoint goes the one way: identified, planned, in the books, and let go of."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import Accounting, ChargeKind, Endpoint, Outcome, Task
from inference.decisions.endpoints import OTHER_PATHS, READING
from tests.inference.gateway.client import opened, post, request_bytes, send
from tests.inference.gateway.rig import (
    CREDENTIAL,
    MODEL,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

TEXT = "one two three four five"
NANO_IN, NANO_OUT = 1_000_000, 2_000_000


@dataclass(frozen=True)
class Sample:
    """A call of an endpoint, and what it costs at the worker's counts."""

    endpoint: Endpoint
    path: str
    fields: dict[str, Any]
    upstream_path: str
    usage: Usage
    tokens_max: tuple[int, int]
    """Most prompt tokens beyond the body's bytes (none at all if negative), most output tokens."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """What the worker is sent besides."""


SAMPLES = (
    Sample(
        Endpoint.COMPLETIONS,
        "/v1/completions",
        {"prompt": "ping", "max_tokens": 7},
        "/v1/completions",
        Usage(10, 5),
        (16, 7),
    ),
    Sample(
        Endpoint.RESPONSES,
        "/v1/responses",
        {"input": "ping", "max_output_tokens": 7},
        "/v1/responses",
        Usage(10, 5, 0, 0),
        (32, 7),
        {"store": False},
    ),
    Sample(
        Endpoint.MESSAGES,
        "/v1/messages",
        {"messages": [{"role": "user", "content": "ping"}], "max_tokens": 7},
        "/v1/messages",
        Usage(10, 5),
        (32, 7),
    ),
    Sample(
        Endpoint.EMBEDDINGS,
        "/v1/embeddings",
        {"input": ["a", "b"]},
        "/v1/embeddings",
        Usage(10, 0),
        (32, 0),
    ),
    # the query, and what surrounds it, may be read with each document
    Sample(
        Endpoint.RERANK,
        "/v1/rerank",
        {"query": "q", "documents": ["a", "b"]},
        "/rerank",
        Usage(20, 0),
        (107, 0),
    ),
    Sample(
        Endpoint.SCORE,
        "/v1/score",
        {"text_1": "q", "text_2": ["a", "b"]},
        "/score",
        Usage(20, 0),
        (105, 0),
    ),
    Sample(Endpoint.TOKENIZE, "/tokenize", {"prompt": "ping"}, "/tokenize", Usage(0, 0), (-1, 0)),
    Sample(
        Endpoint.DETOKENIZE, "/detokenize", {"tokens": [112]}, "/detokenize", Usage(0, 0), (-1, 0)
    ),
    Sample(
        Endpoint.COUNT_TOKENS,
        "/v1/messages/count_tokens",
        {"messages": [{"role": "user", "content": "ping"}]},
        "/v1/messages/count_tokens",
        Usage(0, 0),
        (-1, 0),
    ),
)
each_sample = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[one.endpoint.value for one in SAMPLES]
)


def models_for(endpoint: Endpoint) -> Any:
    task = Task.EMBED if endpoint in READING else Task.GENERATE
    return (replace(MODEL, task=task),)


@pytest.fixture
async def serving(upstream: Upstream, sample: Sample) -> AsyncIterator[Gateway]:
    """A gateway whose only worker has a model of the sample's kind."""
    pool = pool_record("a", upstream.base_url)
    async with running_gateway(configuration(pool, models=models_for(sample.endpoint))) as gateway:
        yield gateway


@each_sample
async def test_an_answer_is_booked_under_its_endpoint_at_its_cost(
    serving: Gateway, upstream: Upstream, sample: Sample
) -> None:
    reply = await post(serving.port, sample.path, **sample.fields)
    assert reply.status == 200
    end, charge = serving.books.end, serving.books.charge
    assert (end.outcome, end.origin.endpoint) == (Outcome.OK, sample.endpoint)
    assert (end.first_token_ms, charge.first_token_ms) == (None, None)
    assert (charge.kind, charge.usage) == (ChargeKind.FINAL, sample.usage)
    cost = NANO_IN * (sample.usage.prompt_tokens or 0)
    cost += NANO_OUT * (sample.usage.completion_tokens or 0)
    assert (charge.cost_nanousd, charge.cost_max_nanousd) == (cost, cost)
    (call,) = upstream.calls
    assert call.path == sample.upstream_path
    assert call.headers["authorization"] == f"Bearer {CREDENTIAL}"
    assert json.loads(call.body or "") == {
        "model": "served-a",
        **sample.fields,
        **sample.added,
    }


@each_sample
async def test_the_books_are_opened_with_what_it_can_cost_at_most(
    serving: Gateway, sample: Sample
) -> None:
    await post(serving.port, sample.path, **sample.fields)
    (opening,) = serving.books.openings
    bytes_sent = len(json.dumps({"model": "m", **sample.fields}).encode())
    extra, output = sample.tokens_max
    prompt = 0 if extra < 0 else bytes_sent + extra
    assert (opening.prompt_tokens_max, opening.output_tokens_max) == (prompt, output)
    assert opening.cost_max_nanousd == prompt * NANO_IN + output * NANO_OUT


@each_sample
async def test_no_key_no_answer(serving: Gateway, upstream: Upstream, sample: Sample) -> None:
    body = json.dumps({"model": "m", **sample.fields}).encode()
    reply = await send(serving.port, request_bytes(body, path=sample.path, token=None))
    assert (reply.status, reply.code) == (401, "invalid_api_key")
    assert upstream.calls == []


@each_sample
async def test_a_strict_route_does_not_serve_what_it_cannot_write_down(
    upstream: Upstream, sample: Sample
) -> None:
    snapshot = configuration(
        pool_record("a", upstream.base_url),
        routes=(route_record("a", accounting=Accounting.STRICT),),
        models=models_for(sample.endpoint),
    )
    async with running_gateway(snapshot) as gateway:
        gateway.books.is_full = True
        reply = await post(gateway.port, sample.path, **sample.fields)
    assert (reply.status, reply.code) == (503, "accounting_unavailable")
    assert upstream.calls == []


@each_sample
async def test_a_client_that_leaves_ends_the_workers_call_at_once(
    serving: Gateway, upstream: Upstream, sample: Sample
) -> None:
    upstream.play(Behaviour(delay_ms=30_000))
    body = json.dumps({"model": "m", **sample.fields}).encode()
    async with opened(serving.port, request_bytes(body, path=sample.path)) as call:
        await serving.wait_for(lambda: upstream.calls)
        left = time.monotonic()
        call.leave()
        await serving.wait_ended()
        assert time.monotonic() - left < 5
    await serving.wait_for(lambda: upstream.calls[0].is_closed_early)
    end, charge = serving.books.end, serving.books.charge
    assert (end.outcome, end.error_code) == (Outcome.CANCELLED, "client_left")
    assert (charge.kind, charge.cost_nanousd) == (ChargeKind.ESTIMATED, 0)
    assert charge.cost_max_nanousd == serving.books.openings[0].cost_max_nanousd


@each_sample
async def test_an_answer_of_another_kind_is_none(
    serving: Gateway, upstream: Upstream, sample: Sample
) -> None:
    other = '"output":1,"content":2,"results":[],"input_tokens":"3"'
    upstream.play(
        Behaviour(body=f'{{"usage":null,"data":[],"choices":[],"tokens":1,"prompt":2,{other}}}')
    )
    reply = await post(serving.port, sample.path, **sample.fields)
    assert (reply.status, reply.code) == (502, "upstream_bad_answer")


@each_sample
async def test_a_worker_that_finds_fault_is_heard_by_the_caller(
    serving: Gateway, upstream: Upstream, sample: Sample
) -> None:
    error = {"message": "too long", "type": "BadRequestError", "param": "x", "code": 400}
    upstream.play(Behaviour(status=400, body=json.dumps({"error": error})))
    reply = await post(serving.port, sample.path, **sample.fields)
    assert (reply.status, reply.json["error"]["message"]) == (400, "too long")
    assert len(upstream.calls) == 1


@each_sample
async def test_an_endpoint_is_the_same_at_every_path_it_has(
    serving: Gateway, upstream: Upstream, sample: Sample
) -> None:
    others = [path for path, endpoint in OTHER_PATHS.items() if endpoint is sample.endpoint]
    for path in others:
        assert (await post(serving.port, path, **sample.fields)).status == 200
    assert [end.origin.endpoint for end in serving.books.ends] == [sample.endpoint] * len(others)
    assert {one.path for one in upstream.calls} <= {sample.upstream_path}


@pytest.mark.parametrize("ending", ["", "/", "/v1/"])
async def test_a_base_url_may_end_anyhow(upstream: Upstream, ending: str) -> None:
    base_url = upstream.base_url.removesuffix("/v1") + ending
    async with running_gateway(configuration(pool_record("a", base_url))) as gateway:
        assert (await post(gateway.port, "/tokenize", prompt="é")).json["tokens"] == [195, 169]
        assert (await post(gateway.port, "/v1/completions", prompt="a")).status == 200
    below = "/v1" if ending == "/v1/" else ""
    assert [one.path for one in upstream.calls] == ["/tokenize", f"{below}/completions"]


@pytest.mark.parametrize(
    ("fields", "usage", "output_max"),
    [
        ({"prompt": ["a", "b"], "max_tokens": 7}, Usage(20, 10), 14),
        ({"prompt": "a", "n": 3, "max_tokens": 7}, Usage(10, 15), 21),
        ({"prompt": [[1, 2], [3]], "n": 2, "max_tokens": 7}, Usage(20, 20), 28),
        ({"prompt": [1, 2, 3], "max_tokens": 7}, Usage(10, 5), 7),
        ({"prompt": "a", "n": 1, "best_of": 4, "max_tokens": 7}, Usage(10, 5), 28),
        ({"prompt": "a"}, Usage(10, 5), 4096),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_many_prompts_and_answers_are_bounded_and_counted_together(
    gateway: Gateway, fields: dict[str, Any], usage: Usage, output_max: int, is_stream: bool
) -> None:
    await post(gateway.port, "/v1/completions", stream=is_stream, **fields)
    assert gateway.books.openings[0].output_tokens_max == output_max
    charge = gateway.books.charge
    assert (charge.kind, charge.usage) == (ChargeKind.FINAL, usage)


async def test_an_echo_of_nothing_more_is_bounded_by_the_token_an_engine_makes_for_it(
    gateway: Gateway,
) -> None:
    await post(gateway.port, "/v1/completions", prompt="a", echo=True, max_tokens=0)
    assert gateway.books.openings[0].output_tokens_max == 1


async def test_a_completions_stream_shows_what_was_asked_for_and_no_usage(
    gateway: Gateway,
) -> None:
    reply = await post(
        gateway.port, "/v1/completions", prompt="ping", stream=True, echo=True, logprobs=1
    )
    assert (reply.is_whole, reply.events[-1]) == (True, "[DONE]")
    assert b'"usage"' not in reply.body
    texts = [choice for chunk in reply.chunks for choice in chunk["choices"]]
    assert "".join(choice["text"] for choice in texts) == f"ping {TEXT}"
    assert texts[0]["logprobs"]["token_logprobs"] == [-0.5, -0.5]
    assert gateway.books.end.origin.is_stream
    assert (gateway.books.end.first_token_ms or 0) > 0


async def test_completions_usage_that_was_asked_for_comes_once_at_the_end(
    gateway: Gateway,
) -> None:
    reply = await post(
        gateway.port,
        "/v1/completions",
        prompt="ping",
        stream=True,
        stream_options={"include_usage": True},
    )
    with_usage = [chunk for chunk in reply.chunks if "usage" in chunk]
    assert [one["choices"] for one in with_usage] == [[]]
    assert with_usage[0]["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize(
    ("fields", "prompts", "choices"),
    [({"prompt": ["a", "b"]}, 2, 2), ({"prompt": "a", "n": 2}, 1, 2)],
)
async def test_a_cut_stream_of_many_choices_is_billed_for_all_that_was_seen_of_each(
    gateway: Gateway, upstream: Upstream, fields: dict[str, Any], prompts: int, choices: int
) -> None:
    upstream.play(Behaviour(cut_after=3 * choices, ending="reset"))
    reply = await post(gateway.port, "/v1/completions", stream=True, **fields)
    assert not reply.is_whole
    charge = gateway.books.charge
    assert (charge.kind, charge.usage) == (ChargeKind.CUT, Usage(10 * prompts, 3 * choices))


async def test_a_stream_that_fails_before_its_first_word_is_asked_elsewhere(
    pair: Gateway, upstream: Upstream
) -> None:
    empty = {"choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}]}
    upstream.play(Behaviour(frames=[f"data: {json.dumps(empty)}\n\n"], ending="close"))
    reply = await post(pair.port, "/v1/completions", prompt="ping", stream=True)
    assert (reply.status, len(pair.books.end.charges)) == (200, 2)
    assert sum(len(chunk["choices"]) for chunk in reply.chunks) == 6


async def test_an_embedding_without_usage_is_an_estimate(upstream: Upstream) -> None:
    upstream.play(Behaviour(usage=None))
    pool = pool_record("a", upstream.base_url)
    snapshot = configuration(pool, models=models_for(Endpoint.EMBEDDINGS))
    async with running_gateway(snapshot) as gateway:
        assert (await post(gateway.port, "/v1/embeddings", input="a")).status == 200
        charge = gateway.books.charge
    assert (charge.kind, charge.usage) == (ChargeKind.ESTIMATED, Usage())


async def test_an_unpriced_models_tokens_are_counted_at_an_unknown_cost(
    upstream: Upstream,
) -> None:
    pool = pool_record("a", upstream.base_url)
    async with running_gateway(configuration(pool, prices=())) as gateway:
        await post(gateway.port, "/tokenize", prompt="a")
        charge = gateway.books.charge
    assert (charge.kind, charge.usage, charge.cost_nanousd) == (
        ChargeKind.FINAL,
        Usage(0, 0),
        None,
    )

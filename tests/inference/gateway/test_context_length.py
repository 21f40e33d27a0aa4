"""Requests that don't fit one model's context: told in one code, tried where they fit."""

import json
from dataclasses import replace

import pytest

from inference.contract.snapshot import ConfigSnapshot, ModelRecord
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import (
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

WORDINGS = [
    # vLLM, old and new
    {
        "object": "error",
        "message": "This model's maximum context length is 100 tokens. However, you requested 200",
        "type": "BadRequestError",
        "code": 400,
    },
    {
        "error": {
            "message": "The decoder prompt (length 200) is longer than the maximum model length"
            " of 100.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        }
    },
    {
        "error": {
            "message": "You passed 200 input tokens and requested 10 output tokens. However, the"
            " model's context length is only 100 tokens.",
            "type": "BadRequestError",
            "param": "input_tokens",
            "code": 400,
        }
    },
    # SGLang
    {"message": "The input (200 tokens) is longer than the model's context length (100 tokens)."},
    {"message": "Input length (200 tokens) exceeds the maximum allowed length (100 tokens)."},
    # llama.cpp
    {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
        }
    },
    {"error": {"code": 400, "message": "", "type": "exceed_context_size_error"}},
    # OpenAI
    {"error": {"message": "Too long", "code": "context_length_exceeded", "param": "messages"}},
]


def too_long(wording: object) -> Behaviour:
    return Behaviour(status=400, body=json.dumps(wording))


@pytest.mark.parametrize("wording", WORDINGS)
async def test_however_an_engine_says_it_the_next_larger_model_answers(
    upstream: Upstream, other_upstream: Upstream, wording: object
) -> None:
    upstream.play(too_long(wording))
    pools = [
        pool_record("a", upstream.base_url),
        pool_record("small", upstream.base_url, model_id="mdl_small"),
        pool_record("big", other_upstream.base_url, model_id="mdl_big"),
    ]
    snapshot = configuration(*pools, routes=(route_record("a", "small", "big"),))
    sizes = {"mdl_a": 100, "mdl_small": 50, "mdl_big": 1_000}
    models = {
        name: ModelRecord(name, "org_a", name, max_context_tokens=size)
        for name, size in sizes.items()
    }
    async with running_gateway(replace(snapshot, models=models)) as gateway:
        assert (await chat(gateway.port)).status == 200
        assert [one.target_id for one in gateway.books.end.charges] == ["tgt_a", "tgt_big"]
        assert gateway.fleet.breakers(gateway.stopwatch()) == {}
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 1)


async def test_a_request_goes_to_the_model_it_fits_before_any_call_is_made(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = [
        pool_record("small", upstream.base_url, model_id="mdl_small"),
        pool_record("big", other_upstream.base_url, model_id="mdl_big"),
    ]
    route = route_record("small", "big")
    tiered = replace(route, targets=(route.targets[0], replace(route.targets[1], tier=1)))
    models = {
        name: ModelRecord(name, "org_a", name, max_context_tokens=size)
        for name, size in {"mdl_small": 100, "mdl_big": 1_000}.items()
    }
    snapshot = replace(configuration(*pools, routes=(tiered,)), models=models)
    async with running_gateway(snapshot) as gateway:
        messages = [{"role": "user", "content": "one two three " * 100}]
        reply = await chat(gateway.port, messages=messages)
        assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
        assert (await chat(gateway.port, max_tokens=500)).status == 200
        assert (len(upstream.calls), len(other_upstream.calls)) == (0, 2)
        decision = gateway.books.ends[-1].decision
        assert decision is not None
        assert decision["left_out"] == {"tgt_small": "context_too_small"}
        # one that is too long for both is the engines' to refuse
        assert (await chat(gateway.port, max_tokens=5_000)).status == 200
        assert len(upstream.calls) == 1


def in_two_sizes(
    first: Upstream, second: Upstream, *names: str, **changes: object
) -> ConfigSnapshot:
    """The route `m` over a small model at the first upstream and a big one at the second."""
    pools = (
        pool_record("small", first.base_url, model_id="mdl_small"),
        pool_record("big", second.base_url, model_id="mdl_big"),
    )
    models = tuple(
        ModelRecord(f"mdl_{name}", "org_a", name, max_context_tokens=size)
        for name, size in {"small": 100, "big": 1_000}.items()
    )
    route = route_record(*(names or ("small", "big")), **changes)
    return configuration(*pools, routes=(route,), models=models)


@pytest.mark.parametrize(
    "failure",
    [
        Behaviour(status=500),
        Behaviour(status=503),
        Behaviour(before_head="reset"),
        Behaviour(delay_ms=5_000),
    ],
    ids=["broken", "full", "lost", "silent"],
)
@pytest.mark.parametrize("wording", [WORDINGS[0], WORDINGS[-1]], ids=["number", "no number"])
async def test_if_the_larger_model_fails_the_caller_is_told_that_it_is_too_long_and_the_limit(
    upstream: Upstream, other_upstream: Upstream, failure: Behaviour, wording: object
) -> None:
    upstream.play(too_long(wording))
    other_upstream.play(failure)
    snapshot = in_two_sizes(upstream, other_upstream, first_byte_timeout_ms=200)
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
        assert " 100 tokens" in str(reply.error["message"])
        first, second = gateway.books.end.charges
        assert (first.target_id, first.error_code) == ("tgt_small", "upstream_refused")
        assert (second.target_id, second.error_code) != ("tgt_big", None)
        assert gateway.books.end.error_code == "upstream_refused"
        assert gateway.inflight == 0


async def test_a_stream_that_comments_began_ends_with_the_same_word(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(too_long(WORDINGS[0]))
    other_upstream.play(Behaviour(delay_ms=300, status=500))
    snapshot = in_two_sizes(upstream, other_upstream, keep_alive_ms=50)
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert reply.status == 200
        assert json.loads(reply.events[-1])["error"]["code"] == "context_length_exceeded"


async def test_if_the_larger_model_is_only_ill_a_smaller_ones_limit_misleads_nobody(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(too_long(WORDINGS[0]))
    other_upstream.play(Behaviour(status=500))
    snapshot = in_two_sizes(upstream, other_upstream, "big", "small")
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
        assert len(gateway.books.end.charges) == 2


@pytest.mark.parametrize("wording", WORDINGS)
async def test_if_no_model_takes_it_the_caller_is_told_in_one_code(
    gateway: Gateway, upstream: Upstream, wording: object
) -> None:
    upstream.play(too_long(wording))
    reply = await chat(gateway.port)
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
    assert len(upstream.calls) == 1
    assert gateway.books.end.error_code == "upstream_refused"

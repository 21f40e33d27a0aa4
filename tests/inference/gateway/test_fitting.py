"""Which endpoints a route answers: its models' task decides, and what their backends offer."""

from dataclasses import replace
from typing import Any

import pytest

from inference.contract.kinds import Backend, Outcome, Task
from tests.inference.gateway.client import post
from tests.inference.gateway.rig import (
    MODEL,
    PRICE,
    TOKEN,
    configuration,
    key_record,
    pool_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream

GENERATES = (
    "The model `m` answers /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, "
    "/tokenize, /detokenize and /v1/messages/count_tokens"
)
EMBEDS = "The model `m` answers /v1/embeddings, /v1/rerank, /v1/score, /tokenize and /detokenize"
PLAIN = (
    "The model `m` answers /v1/chat/completions, /v1/completions, /v1/responses and /v1/messages"
)
WRONG = [
    (Task.GENERATE, Backend.VLLM, "/v1/embeddings", {"input": "a"}, GENERATES),
    (Task.EMBED, Backend.VLLM, "/v1/completions", {"prompt": "a"}, EMBEDS),
    (Task.EMBED, Backend.VLLM, "/v1/chat/completions", {"messages": []}, EMBEDS),
    (Task.EMBED, Backend.VLLM, "/v1/responses", {"input": "a"}, EMBEDS),
    (Task.GENERATE, Backend.VLLM, "/v1/rerank", {"query": "a", "documents": ["b"]}, GENERATES),
    (Task.GENERATE, Backend.VLLM, "/v1/score", {"text_1": "a", "text_2": "b"}, GENERATES),
    (Task.GENERATE, Backend.OPENAI, "/tokenize", {"prompt": "a"}, PLAIN),
    (Task.GENERATE, Backend.OPENAI, "/detokenize", {"tokens": [1]}, PLAIN),
]


@pytest.mark.parametrize(("task", "backend", "path", "fields", "serves"), WRONG)
async def test_a_route_that_does_not_answer_an_endpoint_says_what_it_does(
    upstream: Upstream,
    task: Task,
    backend: Backend,
    path: str,
    fields: dict[str, Any],
    serves: str,
) -> None:
    pool = pool_record("a", upstream.base_url, backend=backend)
    async with running_gateway(configuration(pool, models=(replace(MODEL, task=task),))) as gateway:
        reply = await post(gateway.port, path, **fields)
        assert reply.status == 400
        assert reply.error == {
            "message": f"{serves}, not {path}.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "invalid_request",
        }
        assert gateway.books.openings == []
        assert (gateway.books.end.outcome, gateway.books.end.charges) == (Outcome.REFUSED, ())
        assert gateway.books.end.origin.route_id == "rt_m"
    assert upstream.calls == []


async def test_a_route_of_several_kinds_sends_each_endpoint_to_those_that_answer_it(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = (
        pool_record("a", upstream.base_url),
        pool_record("b", other_upstream.base_url, model_id="mdl_b"),
    )
    models = (MODEL, replace(MODEL, id="mdl_b", name="embedder", task=Task.EMBED))
    prices = (PRICE, replace(PRICE, id="prc_b", model_id="mdl_b", input_nanousd_per_mtok=10**15))
    async with running_gateway(configuration(*pools, models=models, prices=prices)) as gateway:
        for u in (0.0, 0.999):
            gateway.u = u
            assert (await post(gateway.port, "/v1/embeddings", input="a")).status == 200
            assert (await post(gateway.port, "/v1/completions", prompt="a")).status == 200
    assert {one.path for one in upstream.calls} == {"/v1/completions"}
    assert {one.path for one in other_upstream.calls} == {"/v1/embeddings"}
    costs = [opening.cost_max_nanousd or 0 for opening in gateway.books.openings]
    assert max(costs[1], costs[3]) < min(costs[0], costs[2])


async def test_a_key_that_may_not_see_a_route_does_not_learn_what_it_serves(
    upstream: Upstream,
) -> None:
    key = key_record(TOKEN, route_names=("other",))
    snapshot = configuration(pool_record("a", upstream.base_url), keys=(key,))
    async with running_gateway(snapshot) as gateway:
        reply = await post(gateway.port, "/v1/embeddings", input="a")
    assert (reply.status, reply.error["code"]) == (404, "model_not_found")

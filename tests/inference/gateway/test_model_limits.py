"""Limits of models, of which a request may ask several, and answers kept within strict limits."""

import json
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import Backend, Enforcement, LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import ConfigSnapshot, LimitRecord, ModelRecord
from tests.inference.gateway.client import chat, post
from tests.inference.gateway.rig import (
    MODEL,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.limits.rig import SEEDED
from tests.inference.stores import keep_clear_of_the_end
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

USAGE = {"prompt_tokens": 10, "completion_tokens": 5}
BROKEN = Behaviour(status=500)
TARGETS = ["tgt_a"], ["tgt_b"]


@pytest.fixture
async def store(client: Redis, admin: Redis) -> Redis:
    """A client of a seeded store, in whose day there is time left."""
    keep_clear_of_the_end(86_400, margin_s=30)
    await admin.mset(SEEDED)
    return client


def of_model(unit: LimitUnit, amount: int, name: str = "a", **changes: object) -> LimitRecord:
    """A limit a day of the model of the pool of this name."""
    subject, window = LimitSubject.MODEL, LimitWindow.DAY
    record = LimitRecord(f"lim_{name}", "org_a", name, subject, unit, amount, f"mdl_{name}", window)
    return replace(record, **changes)


def two_models(
    first: Upstream, second: Upstream, *limits: LimitRecord, **changes: object
) -> ConfigSnapshot:
    """The route `m` in two tiers, each of a model of its own."""
    pools = (
        pool_record("a", first.base_url),
        pool_record("b", second.base_url, model_id="mdl_b"),
    )
    route = route_record("a", "b", **changes)
    route = replace(
        route, targets=tuple(replace(one, tier=tier) for tier, one in enumerate(route.targets))
    )
    models = (MODEL, ModelRecord("mdl_b", "org_a", "mistral"))
    return configuration(*pools, routes=(route,), models=models, limits=limits)


def served(gateway: Gateway) -> list[str]:
    return [one.target_id for one in gateway.books.ends[-1].charges]


def limits_record(gateway: Gateway) -> object:
    decision = gateway.books.ends[-1].decision
    assert decision is not None
    return decision["limits"]


async def test_a_model_that_reached_its_limit_is_passed_over_and_the_last_one_refuses(
    store: Redis, upstream: Upstream, other_upstream: Upstream
) -> None:
    requests = LimitUnit.REQUESTS
    organisations = of_model(
        requests, 9, id="lim_o", subject=LimitSubject.ORGANISATION, subject_id=None
    )
    limits = (of_model(requests, 1), of_model(requests, 2, "b"), organisations)
    snapshot = two_models(upstream, other_upstream, *limits)
    async with running_gateway(snapshot, store=store) as gateway:
        for target in ("tgt_a", "tgt_b", "tgt_b"):
            assert (await chat(gateway.port)).status == 200
            assert served(gateway) == [target]
        assert limits_record(gateway) == {"kept": ["lim_o", "lim_b"], "passed_over": ["lim_a"]}
        refused = await chat(gateway.port)
        assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
        assert served(gateway) == []
        gateway.apply(two_models(upstream, other_upstream, organisations))
        left = (await chat(gateway.port)).headers["x-ratelimit-remaining-requests"]
        assert left == "5"  # of nine: who was refused took none


async def test_what_a_fallback_used_counts_on_the_model_that_answered(
    store: Redis, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(BROKEN)
    other_upstream.play(Behaviour(usage=USAGE))
    total = LimitUnit.TOTAL_TOKENS
    limits = (of_model(total, 100), of_model(total, 100, "b"))
    snapshot = two_models(upstream, other_upstream, *limits)
    async with running_gateway(snapshot, store=store) as gateway:
        await chat(gateway.port)
        assert served(gateway) == ["tgt_a", "tgt_b"]
        for upstream_of, limit, left in ((upstream, "a", "100"), (other_upstream, "b", "85")):
            only = configuration(
                pool_record(limit, upstream_of.base_url, model_id=f"mdl_{limit}"), limits=limits
            )
            gateway.apply(only)
            upstream_of.play(Behaviour(usage={"prompt_tokens": 0, "completion_tokens": 0}))
            reply = await chat(gateway.port)
            assert reply.headers["x-ratelimit-remaining-tokens"] == left


FREE_RETRIES = 10


async def test_what_is_passed_over_for_a_limit_spends_no_retry(
    store: Redis, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(BROKEN)
    # three models: the first fails, the second has no room within its limit, the third answers
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=10_000),
        pool_record("b", other_upstream.base_url, model_id="mdl_b"),
        pool_record("c", other_upstream.base_url, model_id="mdl_c"),
    )
    models = (MODEL, ModelRecord("mdl_b", "org_a", "b"), ModelRecord("mdl_c", "org_a", "c"))
    route = route_record("a", "b", "c", retry_budget_percent=0)
    route = replace(
        route, targets=tuple(replace(one, tier=tier) for tier, one in enumerate(route.targets))
    )
    limits = (of_model(LimitUnit.REQUESTS, 0, "b"),)
    snapshot = configuration(*pools, routes=(route,), models=models, limits=limits)
    async with running_gateway(snapshot, store=store) as gateway:
        for _ in range(FREE_RETRIES):
            assert (await chat(gateway.port)).status == 200
            assert served(gateway) == ["tgt_a", "tgt_c"]
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
        assert gateway.metric("retries_total", route="rt_m", result="made") == FREE_RETRIES
        assert gateway.metric("retries_total", route="rt_m", result="refused") == 1


async def test_a_hedge_that_is_refused_by_a_limit_spends_no_retry(
    store: Redis, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=60))
    limits = (of_model(LimitUnit.REQUESTS, 0, "b"),)
    changes = {"hedge_after_ms": 10, "retry_budget_percent": 0}
    snapshot = two_models(upstream, other_upstream, *limits, **changes)
    async with running_gateway(snapshot, store=store) as gateway:
        for _ in range(FREE_RETRIES + 1):
            assert (await chat(gateway.port)).status == 200
        assert gateway.metric("hedges_total", route="rt_m", result="refused") == FREE_RETRIES + 1
        gateway.apply(two_models(upstream, other_upstream, **changes))
        assert (await chat(gateway.port)).status == 200
        assert len(other_upstream.calls) == 1


async def test_a_hedge_goes_to_no_model_that_reached_its_limit(
    store: Redis, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=150))
    limits = (of_model(LimitUnit.REQUESTS, 0, "b"),)
    snapshot = two_models(upstream, other_upstream, *limits, hedge_after_ms=30)
    async with running_gateway(snapshot, store=store) as gateway:
        assert (await chat(gateway.port)).status == 200
        assert served(gateway) == ["tgt_a"]
        assert other_upstream.calls == []
        assert gateway.metric("hedges_total", route="rt_m", result="refused") == 1
        assert gateway.inflight == 0


@pytest.mark.parametrize(
    ("path", "backend", "fields", "sent"),
    [
        ("chat/completions", Backend.VLLM, {"messages": []}, {"max_tokens": 40}),
        ("chat/completions", Backend.OPENAI, {"messages": []}, {"max_completion_tokens": 40}),
        ("completions", Backend.VLLM, {"prompt": "ping", "n": 2}, {"max_tokens": 40}),
        ("responses", Backend.VLLM, {"input": "ping"}, {"max_output_tokens": 40}),
        ("chat/completions", Backend.VLLM, {"messages": [], "max_tokens": 7}, {"max_tokens": 7}),
    ],
)
async def test_an_engine_is_told_the_bound_that_a_strict_limit_took(
    store: Redis,
    upstream: Upstream,
    path: str,
    backend: Backend,
    fields: dict[str, object],
    sent: dict[str, int],
) -> None:
    limit = of_model(LimitUnit.OUTPUT_TOKENS, 10_000, enforcement=Enforcement.STRICT)
    snapshot = configuration(
        pool_record("a", upstream.base_url, backend=backend),
        routes=(route_record("a", default_max_output_tokens=40),),
        limits=(limit,),
    )
    async with running_gateway(snapshot, store=store) as gateway:
        assert (await post(gateway.port, f"/v1/{path}", **fields)).status == 200
        body = json.loads(upstream.calls[-1].body)
        assert {name: body[name] for name in body if name.startswith("max_")} == sent
        told = {} if "max_tokens" in fields else {"output_tokens_sent": 40}
        assert limits_record(gateway) == {"kept": ["lim_a"], **told}

"""Fallbacks: which targets serve when those before them can't, and what tells so."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from inference.contract.kinds import Outcome, PoolPower
from inference.contract.snapshot import RouteRecord, TargetRecord
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


def tiers(*names: str, **changes: object) -> RouteRecord:
    """A route with a target a tier, of pools of these names."""
    targets = tuple(
        TargetRecord(f"tgt_{name}{tier}", f"pool_{name}", 1, tier=tier)
        for tier, name in enumerate(names)
    )
    return replace(route_record("a"), targets=targets, **changes)


def served(gateway: Gateway) -> list[str]:
    """The targets that the last request went to."""
    return [charge.target_id for charge in gateway.books.ends[-1].charges]


async def test_a_fallback_is_told_to_the_caller_and_in_the_books(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour())
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools, routes=(tiers("a", "b"),))) as gateway:
        for fields in ({"stream": False}, {"stream": True}):
            upstream.play(Behaviour(status=500, calls=1), Behaviour())
            reply = await chat(gateway.port, **fields)
            assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
            end = gateway.books.ends[-1]
            assert (end.outcome, served(gateway)) == (Outcome.OK, ["tgt_a0", "tgt_b1"])
            assert (end.origin.requested_model, end.charges[-1].model_id) == ("m", "mdl_a")
            assert end.decision is not None
            assert end.decision["attempts"][-1]["fallbacks"] == 1  # type: ignore[index]
        reply = await chat(gateway.port)
        assert (reply.status, served(gateway)) == (200, ["tgt_a0"])
        assert "x-headworks-fallbacks" not in reply.headers
        assert "x-headworks-target" not in reply.headers


async def test_a_tier_that_does_not_run_is_passed_over_at_no_cost_of_retries(
    upstream: Upstream,
) -> None:
    pools = (
        pool_record("a", upstream.base_url, power=PoolPower.STOPPED),
        pool_record("b"),  # nobody there
        pool_record("c", upstream.base_url),
    )
    route = tiers("a", "b", "c", retry_budget_percent=0, max_attempts=1)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        for _ in range(20):
            reply = await chat(gateway.port, token=DEBUG_TOKEN)
            assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "2")
            assert reply.headers["x-headworks-attempts"] == "1"
        assert not gateway.metric("retries_total", route="rt_m")


async def test_a_fallback_after_a_failed_attempt_is_a_retry_within_the_budget(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=1_000),
        pool_record("b", other_upstream.base_url),
    )
    route = tiers("a", "b", retry_budget_percent=0)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        statuses = [(await chat(gateway.port)).status for _ in range(13)]
    # ten are always free
    assert statuses == [200] * 10 + [502] * 3


async def test_while_a_lower_tier_is_dead_the_fallback_serves_and_then_no_more(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=2, breaker_open_ms=1_000),
        pool_record("b", other_upstream.base_url),
    )
    async with running_gateway(configuration(*pools, routes=(tiers("a", "b"),))) as gateway:
        for _ in range(6):
            assert (await chat(gateway.port)).status == 200
        assert len(upstream.calls) == 2  # its breaker is open, so the fallback goes first
        assert served(gateway) == ["tgt_b1"]
        upstream.play(Behaviour())
        gateway.skipped_s = 2.0
        assert (await chat(gateway.port)).status == 200
        assert served(gateway) == ["tgt_a0"]


@pytest.mark.parametrize("names", [("a", "b", "a", "b"), ("a", "a"), ("b", "a", "b")])
async def test_no_chain_comes_back_to_a_worker_that_has_failed(
    upstream: Upstream, other_upstream: Upstream, names: Iterable[str]
) -> None:
    for one in (upstream, other_upstream):
        one.play(Behaviour(status=500))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = tiers(*names, max_attempts=10)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
    assert len(upstream.calls) <= 1
    assert len(other_upstream.calls) <= 1


async def test_a_target_that_lacks_the_model_leaves_the_request_to_the_next_tier(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=404, body='{"error":{"message":"gone"}}'))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools, routes=(tiers("a", "b"),))) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
        assert gateway.books.end.charges[0].error_code == "upstream_model_missing"

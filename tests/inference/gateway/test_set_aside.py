"""Workers that say "not now" are passed over for others, and asked again soon."""

import asyncio
import random
from typing import Any

import pytest

from inference.contract.kinds import Strategy
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

pytestmark = pytest.mark.slow


CALLS, GAP_S, SKIP_S = 200, 0.005, 0.015
"""Fifty calls a second by the gateway's own clock, in a quarter of the time."""


def attempts(gateway: Gateway) -> list[dict[str, Any]]:
    decision = gateway.books.ends[-1].decision
    assert decision is not None
    return list(decision["attempts"])  # type: ignore[call-overload]


async def load(gateway: Gateway) -> list[int]:
    """Ask often, at an even pace and wherever chance leads; the statuses."""
    chance = random.Random(1)
    calls = []
    for _ in range(CALLS):
        gateway.u = chance.random()
        calls.append(asyncio.create_task(chat(gateway.port)))
        await asyncio.sleep(GAP_S)
        gateway.skipped_s += SKIP_S
    return [reply.status for reply in await asyncio.gather(*calls)]


@pytest.mark.parametrize(
    ("status", "strategy"),
    [
        (429, Strategy.LEAST_WORK),
        (401, Strategy.LEAST_WORK),
        (404, Strategy.LEAST_WORK),
        (503, Strategy.LEAST_WORK),
        (429, Strategy.WEIGHTED),
    ],
)
async def test_a_worker_that_refuses_at_once_draws_no_load_and_serves_soon_after(
    upstream: Upstream, other_upstream: Upstream, status: int, strategy: Strategy
) -> None:
    upstream.play(Behaviour(status=status))
    other_upstream.play(Behaviour(delay_ms=75))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = route_record("a", "b", weights=(1, 1), strategy=strategy)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        statuses = await load(gateway)
        assert statuses.count(200) >= CALLS - 5
        # once a second it is asked whether it can again
        assert 3 <= len(upstream.calls) <= 15
        assert gateway.fleet.breakers(gateway.stopwatch()) == {}
        upstream.play(Behaviour())
        gateway.skipped_s += 1.0
        gateway.u = 0.0
        assert (await chat(gateway.port)).status == 200
        assert attempts(gateway)[0]["worker"] == "pool_a-0"
        assert "set_aside" not in attempts(gateway)[0]


async def test_who_was_set_aside_is_told_with_the_attempt(
    pair: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=429, headers={"retry-after": "7"}, calls=1), Behaviour())
    assert (await chat(pair.port)).status == 200
    assert [(one["worker"], one.get("set_aside")) for one in attempts(pair)] == [
        ("pool_a-0", None),
        ("pool_b-0", ["pool_a-0"]),
    ]
    pair.skipped_s = 6.5
    assert (await chat(pair.port)).status == 200
    assert [(one["worker"], one["set_aside"]) for one in attempts(pair)] == [
        ("pool_b-0", ["pool_a-0"])
    ]
    pair.skipped_s = 7.5
    assert (await chat(pair.port)).status == 200
    assert attempts(pair) == [{"target": "tgt_a", "worker": "pool_a-0", "inflight": 0}]


async def test_a_worker_that_is_set_aside_serves_if_there_is_nobody_else(
    gateway: Gateway, upstream: Upstream
) -> None:
    refusal = Behaviour(status=429, headers={"retry-after": "30"}, calls=2)
    upstream.play(refusal, Behaviour())
    for _ in range(2):
        reply = await chat(gateway.port)
        assert (reply.status, reply.headers["retry-after"]) == (503, "30")
    assert (await chat(gateway.port)).status == 200
    assert attempts(gateway)[0]["set_aside"] == ["pool_a-0"]
    # it has answered what was sent to it since, so it is like any other again
    assert (await chat(gateway.port)).status == 200
    assert attempts(gateway) == [{"target": "tgt_a", "worker": "pool_a-0", "inflight": 0}]


async def test_inside_a_pool_the_others_are_sent_to(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=404))
    pool = pool_record("a", upstream.base_url, other_upstream.base_url)
    async with running_gateway(configuration(pool)) as gateway:
        for _ in range(5):
            assert (await chat(gateway.port)).status == 200
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 5)

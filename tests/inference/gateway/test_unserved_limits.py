"""What a request that no worker was asked for counts on a limit of requests."""

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import ConfigSnapshot, LimitRecord
from tests.inference.gateway.client import chat, streaming
from tests.inference.gateway.rig import (
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

TWO_A_DAY = LimitRecord(
    id="lim_two",
    organisation_id="org_a",
    name="two",
    subject=LimitSubject.ORGANISATION,
    unit=LimitUnit.REQUESTS,
    amount=2,
    window=LimitWindow.DAY,
)


@pytest.fixture
async def store(client: Redis, admin: Redis) -> Redis:
    """A client of a seeded store, in a day that lasts for the test."""
    keep_clear_of_the_end(86_400, margin_s=30)
    await admin.mset(SEEDED)
    return client


def limited(upstream: Upstream, **route: object) -> ConfigSnapshot:
    pool = pool_record("a", upstream.base_url, worker_concurrency=1)
    return configuration(pool, routes=(route_record("a", **route),), limits=(TWO_A_DAY,))


async def times(count: int, gateway: Gateway) -> list[int]:
    return [(await chat(gateway.port)).status for _ in range(count)]


async def test_who_finds_no_place_uses_nothing(store: Redis, upstream: Upstream) -> None:
    upstream.play(Behaviour(text="one " * 50, gap_ms=50))
    async with running_gateway(limited(upstream, max_queue_wait_ms=0), store=store) as gateway:
        async with streaming(gateway.port) as running:
            await running.read_until(b"one")
            assert await times(4, gateway) == [503] * 4
            running.leave()
        await gateway.wait_ended(5)
        upstream.play(Behaviour())
        assert await times(2, gateway) == [200, 429]


async def test_requests_that_no_target_is_left_for_count(store: Redis, upstream: Upstream) -> None:
    async with running_gateway(limited(upstream, targets=()), store=store) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "no_capacity")
        assert int(reply.headers["retry-after"]) >= 1
        assert await times(2, gateway) == [503, 429]

"""Limits of end users, whose names callers make up: each has its own, too many share one."""

import json
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import LimitRecord
from tests.inference.gateway.client import BASE, chat, request_bytes, send
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    Gateway,
    configuration,
    pool_record,
    running_gateway,
)
from tests.inference.limits.rig import SEEDED
from tests.inference.stores import keep_clear_of_the_end
from tests.upstream.fixtures import Upstream

EACH = LimitRecord(
    *("lim_u", "org_a", "each", LimitSubject.END_USER, LimitUnit.REQUESTS, 1, None),
    window=LimitWindow.DAY,
)


@pytest.fixture
async def store(client: Redis, admin: Redis) -> Redis:
    """A client of a seeded store, in whose day there is time left."""
    keep_clear_of_the_end(86_400, margin_s=30)
    await admin.mset(SEEDED)
    return client


async def times(count: int, gateway: Gateway, **fields: object) -> list[int]:
    return [(await chat(gateway.port, **fields)).status for _ in range(count)]


async def test_end_users_are_counted_apart(store: Redis, upstream: Upstream) -> None:
    snapshot = configuration(pool_record("a", upstream.base_url), limits=(EACH,))
    async with running_gateway(snapshot, store=store) as gateway:
        for user in ("ann", "bob"):
            assert await times(2, gateway, user=user) == [200, 429]
        assert await times(2, gateway) == [200, 200]


@pytest.mark.slow
async def test_end_users_that_are_too_many_share_what_one_of_them_has(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    two = replace(EACH, amount=2)
    snapshot = configuration(pool_record("a", upstream.base_url), limits=(two,))
    async with running_gateway(snapshot, store=store, most_end_users=3) as gateway:
        for user in ("ann", "bob", "cyd"):
            assert await times(1, gateway, user=user) == [200]
        strangers = [(await times(1, gateway, user=f"stranger{one}"))[0] for one in range(50)]
        assert strangers == [200, 200, *[429] * 48]
        assert gateway.metric("limit_shared_total", unit="requests") == 50
        assert gateway.metric("limit_end_users") == 3
        assert await times(2, gateway, user="ann") == [200, 429]
        counters = [key async for key in admin.scan_iter(match="hw:limits:{org_a}:*")]
        assert len(counters) == 3 + 1 + 1  # what strangers share, and the holders
        # another key's end users are as few as they are
        body = json.dumps({**BASE, "user": "stranger50"}).encode()
        assert (await send(gateway.port, request_bytes(body, token=DEBUG_TOKEN))).status == 200

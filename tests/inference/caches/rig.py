"""A gateway with caches, whose clock can be moved on."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from redis.asyncio import Redis

from inference.caches.base import Parts
from inference.caches.chain import Caches
from inference.contract.kinds import CacheTier
from inference.contract.snapshot import CachePolicyRecord, ConfigSnapshot, PoolRecord, RouteRecord
from inference.contract.wire import CACHE_KEYS
from tests.inference.gateway.rig import (
    DATA_KEY,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream

POLICY = CachePolicyRecord("cch_a", "org_a", "answers", tiers=(CacheTier.LOCAL,))
SHARING = replace(POLICY, tiers=(CacheTier.LOCAL, CacheTier.SHARED))
EMBEDDING = replace(POLICY, tiers=(CacheTier.LOCAL, CacheTier.EMBEDDING))
TTL_S = 300
"""The default of requests that name no task."""


@dataclass
class Clock:
    """The wall clock, moved on by `skipped_s`."""

    skipped_s: float = field(default=0.0)

    def __call__(self) -> float:
        return time.time() + self.skipped_s


def make_caches(
    clock: Clock,
    *,
    store_url: str | None = None,
    local_bytes: int = 4 * 1024 * 1024,
    call_s: float = 5.0,
    helper_socket: Path | None = None,
) -> Caches:
    """Caches of one process; a store has time to answer, however busy the machine."""
    return Caches(
        Parts(
            data_key=DATA_KEY,
            store_url=store_url,
            local_bytes=local_bytes,
            embedding_bytes=local_bytes,
            clock=clock,
            call_s=call_s,
            helper_socket=helper_socket,
            helper_s=5.0,
        )
    )


def cached_route(*pools: str, **changes: object) -> RouteRecord:
    """The route `m` with the policy."""
    return replace(route_record(*pools), cache_policy_id="cch_a", **changes)


def cached_configuration(
    *pools: PoolRecord, policy: CachePolicyRecord = POLICY, **changes: object
) -> ConfigSnapshot:
    """The route `m` over these pools, with a policy."""
    given: dict[str, object] = {
        "routes": (cached_route(*(pool.name for pool in pools)),),
        "policies": (policy,),
    }
    return configuration(*pools, **(given | changes))  # type: ignore[arg-type]


@asynccontextmanager
async def running(caches: Caches) -> AsyncIterator[Caches]:
    """What caches do beside requests, done inside the block."""
    task = asyncio.create_task(caches.run())
    try:
        yield caches
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def caching_gateway(
    *upstreams: Upstream,
    policy: CachePolicyRecord = POLICY,
    snapshot: ConfigSnapshot | None = None,
    clock: Clock | None = None,
    store_url: str | None = None,
    call_s: float = 5.0,
    helper_socket: Path | None = None,
    is_hot: bool = True,
) -> AsyncIterator[Gateway]:
    """A gateway whose route `m` goes to these upstreams in turn, and has the policy."""
    clock = clock or Clock()
    pools = [
        pool_record(name, upstream.base_url)
        for name, upstream in zip("abc", upstreams, strict=False)
    ]
    snapshot = snapshot or cached_configuration(*pools, policy=policy)
    caches = make_caches(clock, store_url=store_url, call_s=call_s, helper_socket=helper_socket)
    async with running(caches):
        async with running_gateway(snapshot, clock=clock, caches=caches, is_hot=is_hot) as gateway:
            gateway.u = 0.5
            yield gateway


async def has_kept(store_url: str, entries: int = 1) -> bool:
    """Whether the store has so many entries by now."""
    async with Redis.from_url(store_url) as store:
        return len([one async for one in store.scan_iter(CACHE_KEYS)]) >= entries

"""Two real gateway processes: each routes by what both have under way, and tells its breakers."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.events import End
from inference.contract.kinds import Strategy
from tests.inference.gateway.client import chat, streaming
from tests.inference.gateway.processes import (
    SEEDED,
    ends_in,
    have_applied,
    running_parent,
    vitals_of,
)
from tests.inference.gateway.rig import PRICE, TOKEN, key_record, pool_record, route_record
from tests.inference.gateway.test_fallback import unreachable
from tests.inference.publishing import KEYS_SECTION, build, publish
from tests.inference.stores import OwnStore, until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

STREAMS, SLOTS = 6, 16


async def publish_fleet(admin: Redis, *addresses: str) -> None:
    """A pool of workers with room for all there is, beside a pool whose only one is dead."""
    pools = (
        pool_record("a", *addresses, worker_concurrency=SLOTS),
        pool_record("b", unreachable()),
    )
    route = route_record("a", "b", strategy=Strategy.LEAST_WORK)
    await admin.mset(SEEDED)
    sections = {"prices": (PRICE,), "pools": pools, "routes": (route,)}
    await publish(admin, build(1, **sections, **{KEYS_SECTION: (key_record(TOKEN),)}))


async def under_way(admin: Redis) -> Counter[str]:
    """What all processes together have under way, by worker."""
    counts: Counter[str] = Counter()
    for record in await vitals_of(admin):
        counts.update(record.inflight)
    return counts


def least_wait(end: End) -> object:
    """The least wait that the last attempt of a request was chosen by."""
    assert end.decision is not None
    last = end.decision["attempts"][-1]  # type: ignore[index]
    return last.get("least_wait")


async def test_each_process_routes_by_what_both_have_under_way(
    own_store: OwnStore,
    admin: Redis,
    tmp_path: Path,
    upstream: Upstream,
    other_upstream: Upstream,
) -> None:
    for one in (upstream, other_upstream):
        one.play(Behaviour(cut_after=3, ending="hang"))
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_parent(own_store, tmp_path / "var"))
        await publish_fleet(admin, upstream.base_url, other_upstream.base_url)
        await until(lambda: have_applied(admin, 1), "both children to have the configuration")
        for _ in range(STREAMS):
            call = await stack.enter_async_context(streaming(gateway.port))
            await call.read_until(b"one")

        async def is_told() -> bool:
            return sum((await under_way(admin)).values()) == STREAMS

        await until(is_told, "all streams in the vitals")
        counts = await under_way(admin)
        expected = min(counts["pool_a-0"], counts["pool_a-1"]) / SLOTS
        assert expected > 0

        async def both_know() -> bool:
            assert (await chat(gateway.port)).status == 200
            ends = await ends_in(admin)
            return {one.origin.gateway for one in ends if least_wait(one) == expected} == {
                "gw-1/0",
                "gw-1/1",
            }

        await until(both_know, "both processes to route by the load of both")

        async def have_opened() -> bool:
            assert (await chat(gateway.port)).status == 200
            return [set(one.breakers) for one in await vitals_of(admin)] == [{"pool_b-0"}] * 2

        await until(have_opened, "the dead worker's breaker in the vitals of both")

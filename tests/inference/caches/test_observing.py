"""A policy without tiers: it answers nothing, and tells which requests are the same."""

import asyncio
from dataclasses import replace

from inference.contract.kinds import CacheOutcome
from tests.inference.caches.rig import POLICY, caching_gateway
from tests.inference.gateway.client import chat
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


async def test_a_policy_without_tiers_serves_nothing_and_names_what_it_would_keep(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=50))
    async with caching_gateway(upstream, policy=replace(POLICY, tiers=())) as gateway:
        await asyncio.gather(*(chat(gateway.port) for _ in range(3)))
        await chat(gateway.port, temperature=0, stream=True)
        await chat(gateway.port, messages=[{"role": "user", "content": "another question"}])
        await gateway.wait_ended(5)
    assert len(upstream.calls) == 5
    uses = [end.cache for end in gateway.books.ends if end.cache is not None]
    assert [one.outcome for one in uses] == [CacheOutcome.MISS] * 5
    assert len({one.entry_id for one in uses[:4]}) == 1
    assert uses[4].entry_id not in (None, uses[0].entry_id)

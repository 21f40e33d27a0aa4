"""What was asked before a purge is never served after it, by nobody."""

from dataclasses import replace

import pytest

from inference.contract.kinds import PurgeKind
from inference.contract.snapshot import PurgeRecord
from tests.inference.caches.rig import SHARING, cached_configuration, caching_gateway, has_kept
from tests.inference.caches.test_exact import ask, cache
from tests.inference.gateway.rig import Gateway, pool_record
from tests.inference.stores import until
from tests.upstream.fixtures import Upstream

HEADERS = {"x-headworks-cache-namespace": "docs/v1", "x-headworks-cache-tags": "a, b"}
PURGE = PurgeRecord("pur_a", "org_a", PurgeKind.TAG, "a", 1)


def purged(gateway: Gateway, upstream: Upstream, *purges: PurgeRecord) -> None:
    """Have a gateway hear of purges."""
    pool = pool_record("a", upstream.base_url)
    policy = next(iter(gateway.holder.current.cache_policies.values()))  # type: ignore[union-attr]
    gateway.apply(cached_configuration(pool, policy=policy, purges=purges))


@pytest.mark.parametrize(
    ("kind", "value", "is_gone"),
    [
        (PurgeKind.POLICY, "cch_a", True),
        (PurgeKind.NAMESPACE, "docs/v1", True),
        (PurgeKind.NAMESPACE, "docs", False),
        (PurgeKind.PREFIX, "docs/", True),
        (PurgeKind.PREFIX, "other/", False),
        (PurgeKind.TAG, "b", True),
        (PurgeKind.TAG, "c", False),
        (PurgeKind.ENTRY, "", True),
    ],
)
async def test_a_purge_takes_what_it_names_and_nothing_else(
    upstream: Upstream, kind: PurgeKind, value: str, is_gone: bool
) -> None:
    async with caching_gateway(upstream) as gateway:
        await ask(gateway, HEADERS)
        used = gateway.books.ends[0].cache
        assert used is not None
        purged(gateway, upstream, PurgeRecord("p", "org_a", kind, value or str(used.entry_id), 3))
        told = [cache(await ask(gateway, HEADERS)) for _ in range(2)]
    hit = "hit; tier=local"
    assert told == (["miss", hit] if is_gone else [hit, hit])


async def test_a_request_with_a_tag_is_served_nothing_that_lacks_it(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        await ask(gateway, {"x-headworks-cache-tags": "b"})
        told = [cache(await ask(gateway, {"x-headworks-cache-tags": "a, b"}))]
        headers = ({"x-headworks-cache-tags": "a"}, {"x-headworks-cache-tags": "b"}, {})
        told += [cache(await ask(gateway, one)) for one in headers]
        purged(gateway, upstream, PURGE)
        told += [cache(await ask(gateway, one)) for one in headers]
    hit = "hit; tier=local"
    assert told == ["miss", hit, hit, hit, "miss", "miss", hit]


async def test_a_purge_that_is_forgotten_takes_nothing_that_came_after_it(
    upstream: Upstream,
) -> None:
    async with caching_gateway(upstream) as gateway:
        purged(gateway, upstream, PURGE)
        await ask(gateway, HEADERS)
        purged(gateway, upstream)
        assert cache(await ask(gateway, HEADERS)) == "hit; tier=local"
        purged(gateway, upstream, replace(PURGE, epoch=2))
        assert cache(await ask(gateway, HEADERS)) == "miss"


async def test_another_organisations_purge_takes_nothing(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        await ask(gateway, HEADERS)
        purged(gateway, upstream, PurgeRecord("p", "org_b", PurgeKind.TAG, "a", 3))
        assert cache(await ask(gateway, HEADERS)) == "hit; tier=local"


async def test_what_a_gateway_keeps_that_has_not_heard_is_served_by_none_that_has(
    upstream: Upstream, cache_url: str
) -> None:
    async with (
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as late,
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as quick,
    ):
        purged(quick, upstream, PURGE)
        await ask(late, HEADERS, seed=12)
        await until(lambda: has_kept(cache_url), "an entry")
        assert cache(await ask(quick, HEADERS, seed=12)) == "miss"
        # nor does one that hasn't heard serve what was kept since
        assert cache(await ask(late, HEADERS, seed=12)) == "hit; tier=local"
        purged(late, upstream, PURGE)
        assert "hit" in cache(await ask(late, HEADERS, seed=12))

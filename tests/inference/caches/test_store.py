"""The cache store: what gateways share, and that nobody needs it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.caches.base import Asked, Entry
from inference.caches.sealed import BadEntry, EntryBox
from inference.contract.events import Usage
from inference.contract.kinds import CacheOutcome, CacheTier, Endpoint
from inference.contract.vitals import TierGauge
from tests.inference.caches.rig import (
    SHARING,
    Clock,
    caching_gateway,
    has_kept,
    make_caches,
    replace,
    running,
)
from tests.inference.caches.test_exact import cache
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import Gateway
from tests.inference.stores import OwnStore, until
from tests.upstream.fixtures import Upstream

STORE_ONLY = replace(SHARING, tiers=(CacheTier.SHARED,))
KEY = bytes(range(32))


def entry(body: bytes = b'{"x":1}', **changes: object) -> Entry:
    now = time.time()
    made = Entry(
        body, Endpoint.CHAT, now, now + 60, now + 60, "ce_1", "cch_a", "rt_m", Usage(1, 2), 5.0
    )
    return replace(made, **changes)


def gauge(gateway: Gateway) -> TierGauge:
    """What the gateway says of the store."""
    assert gateway.caches is not None
    return next(one for one in gateway.caches.gauges() if one.tier is CacheTier.SHARED)


@pytest.fixture
def own_store(tmp_path: Path) -> OwnStore:
    return OwnStore(tmp_path)


@asynccontextmanager
async def over(store: OwnStore, upstream: Upstream, **changes: object) -> AsyncIterator[Gateway]:
    """A gateway over a store of the test's own, whose calls have the usual time."""
    async with caching_gateway(
        upstream, policy=STORE_ONLY, store_url=store.admin_url, call_s=0.05
    ) as gateway:
        yield gateway
    store.stop()


async def test_an_answer_kept_by_one_gateway_is_served_by_another(
    upstream: Upstream, cache_url: str
) -> None:
    async with Redis.from_url(cache_url) as store:
        await store.flushdb()
    async with caching_gateway(upstream, policy=SHARING, store_url=cache_url) as one:
        await chat(one.port)
        await until(lambda: has_kept(cache_url), "an entry")
    async with caching_gateway(upstream, policy=SHARING, store_url=cache_url) as other:
        replies = [await chat(other.port) for _ in range(2)]
    assert [cache(reply) for reply in replies] == ["hit; tier=shared", "hit; tier=local"]
    assert len(upstream.calls) == 1


async def test_an_emptied_store_is_filled_again(upstream: Upstream, cache_url: str) -> None:
    async with (
        caching_gateway(upstream, policy=STORE_ONLY, store_url=cache_url) as gateway,
        Redis.from_url(cache_url) as store,
    ):
        await chat(gateway.port, seed=1)
        await until(lambda: has_kept(cache_url), "an entry")
        await store.flushdb()
        assert cache(await chat(gateway.port, seed=1)) == "miss"
        await until(lambda: has_kept(cache_url), "an entry")
        assert cache(await chat(gateway.port, seed=1)) == "hit; tier=shared"


async def test_what_stands_in_the_store_tells_nothing_and_can_not_be_moved(cache_url: str) -> None:
    clock = Clock()
    async with running(make_caches(clock, store_url=cache_url)) as caches:
        asked, text = Asked("org_a", SHARING, KEY), b'"a very secret answer"' * 40
        async with Redis.from_url(cache_url) as store:
            await store.flushdb()
            caches.shared.keep(asked, KEY, entry(text))
            name = f"hw:cache:{{org_a}}:{KEY.hex()}"
            await until(lambda: has_kept(cache_url), "an entry")
            raw = await store.get(name)
            assert b"secret" not in raw
            assert len(raw) < len(text) / 2
            other = bytes(32)
            await store.set(f"hw:cache:{{org_a}}:{other.hex()}", raw, px=60_000)
            found = await caches.shared.find(asked, [KEY, other])
    assert list(found) == [KEY]
    assert found[KEY].body == text


def test_an_entry_comes_back_as_it_was_and_only_with_its_key() -> None:
    for body in (b"{}", b"x" * 5_000):
        box, made = EntryBox(KEY), entry(body)
        assert box.open(b"k", box.close(b"k", made)) == made
        for sealed, key in ((b"short", b"k"), (box.close(b"k", made), b"other")):
            with pytest.raises(BadEntry):
                box.open(key, sealed)
        with pytest.raises(BadEntry):
            EntryBox(bytes(32)).open(b"k", box.close(b"k", made))


async def test_a_store_that_is_gone_costs_no_answer_and_is_used_again_once_it_is_back(
    own_store: OwnStore, upstream: Upstream
) -> None:
    async with over(own_store, upstream) as gateway:
        await chat(gateway.port)
        await gateway.wait_for(lambda: gauge(gateway).errors_total == 0)
        own_store.stop()
        replies = [await chat(gateway.port) for _ in range(5)]
        assert {one.status for one in replies} == {200}
        assert gauge(gateway).is_down
        assert cache(await chat(gateway.port)) == "off"
        last = gateway.books.ends[-1].cache
        assert last is not None
        assert last.outcome is CacheOutcome.OFF
        own_store.restart()
        await gateway.wait_for(lambda: not gauge(gateway).is_down)

        async def is_hit() -> bool:
            return cache(await chat(gateway.port)) == "hit; tier=shared"

        await until(is_hit, "an answer from the store")


async def test_a_store_that_accepts_and_never_answers_is_asked_no_more(
    own_store: OwnStore, upstream: Upstream
) -> None:
    async with over(own_store, upstream) as gateway:
        await chat(gateway.port)
        own_store.freeze()
        try:
            while not gauge(gateway).is_down:
                assert (await chat(gateway.port)).status == 200
            before = gauge(gateway).errors_total
            began = time.monotonic()
            for _ in range(20):
                assert cache(await chat(gateway.port)) == "off"
            # each would have waited for the store else
            assert time.monotonic() - began < 10
            assert gauge(gateway).errors_total >= before
        finally:
            own_store.thaw()
        await gateway.wait_for(lambda: not gauge(gateway).is_down)


async def test_the_gauge_tells_what_the_store_holds(upstream: Upstream, cache_url: str) -> None:
    async with caching_gateway(upstream, policy=SHARING, store_url=cache_url) as gateway:
        await gateway.wait_for(lambda: gauge(gateway).bytes is not None)
        told = gauge(gateway)
    assert told.bytes_max == 256 * 1024 * 1024
    assert told.entries is not None
    assert told.evictions_total is not None

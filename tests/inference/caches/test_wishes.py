"""What callers say of caches is heard."""

from inference.contract.kinds import CacheOutcome
from tests.inference.caches.rig import (
    Clock,
    caching_gateway,
)
from tests.inference.caches.test_exact import ask, cache
from tests.inference.gateway.client import chat
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


async def test_no_cache_asks_anew_and_refreshes_what_is_kept(upstream: Upstream) -> None:
    upstream.play(Behaviour(calls=1, text="old"), Behaviour(text="new"))
    async with caching_gateway(upstream) as gateway:
        await chat(gateway.port)
        fresh = await ask(gateway, {"cache-control": "no-cache"})
        third = await chat(gateway.port)
    assert (cache(fresh), cache(third)) == ("bypass", "hit; tier=local")
    assert fresh.body == third.body
    assert len(upstream.calls) == 2


async def test_no_store_keeps_nothing(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        first = await ask(gateway, {"cache-control": "no-store"})
        second = await chat(gateway.port)
    assert [cache(one) for one in (first, second)] == ["miss", "miss"]
    assert len(upstream.calls) == 2


async def test_max_age_takes_nothing_older(upstream: Upstream) -> None:
    clock = Clock()
    async with caching_gateway(upstream, clock=clock) as gateway:
        await chat(gateway.port)
        clock.skipped_s = 20
        assert cache(await ask(gateway, {"cache-control": "max-age=60"})) == "hit; tier=local"
        aged = await ask(gateway, {"cache-control": "max-age=10"})
        assert cache(aged) == "miss"
        again = await ask(gateway, {"cache-control": "max-age=10"})
    assert (cache(again), again.headers["age"]) == ("hit; tier=local", "0")


async def test_only_if_cached_asks_no_worker(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        first = await ask(gateway, {"cache-control": "only-if-cached"})
        await chat(gateway.port)
        second = await ask(gateway, {"cache-control": "only-if-cached"})
    assert (first.status, first.code) == (504, "not_cached")
    assert (second.status, cache(second)) == (200, "hit; tier=local")
    assert len(upstream.calls) == 1


async def test_wishes_that_cannot_be_read_are_refused_by_name(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        for name in ("context-version", "cache-namespace", "cache-tags"):
            reply = await ask(gateway, {f"x-headworks-{name}": "two words"})
            assert (reply.status, reply.error["param"]) == (400, f"x-headworks-{name}")


async def test_an_updated_context_is_not_answered_from_before(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        for version in ("1", "2", "1", "2"):
            await ask(gateway, {"x-headworks-context-version": version})
        outcomes = [end.cache.outcome for end in gateway.books.ends if end.cache is not None]
    assert outcomes == [CacheOutcome.MISS] * 2 + [CacheOutcome.HIT] * 2


async def test_namespaces_are_apart(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        names = ("docs/a", "docs/b", "docs/a")
        replies = [await ask(gateway, {"x-headworks-cache-namespace": one}) for one in names]
    assert [cache(one) for one in replies] == ["miss", "miss", "hit; tier=local"]

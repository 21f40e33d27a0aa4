"""Vectors kept by input: what is missing is asked for, the rest isn't billed, the order stays."""

import base64
import json
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis

from inference.contract.kinds import CacheOutcome, CacheTier, Task
from inference.contract.snapshot import CachePolicyRecord
from inference.contract.wire import CACHE_KEYS
from tests.inference.caches.rig import (
    EMBEDDING,
    POLICY,
    cached_configuration,
    caching_gateway,
    has_kept,
)
from tests.inference.caches.test_exact import cache
from tests.inference.gateway.client import Reply, request_bytes, send
from tests.inference.gateway.rig import DEBUG_TOKEN, MODEL, TOKEN, Gateway, pool_record
from tests.inference.stores import until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


@asynccontextmanager
async def embedding_gateway(
    *upstreams: Upstream,
    policy: CachePolicyRecord = EMBEDDING,
    store_url: str | None = None,
) -> AsyncIterator[Gateway]:
    """A gateway whose model makes vectors; that of a second upstream makes others."""
    pools = [
        replace(pool_record(name, one.base_url), breaker_min_requests=1_000)
        for name, one in zip("ab", upstreams, strict=False)
    ]
    snapshot = cached_configuration(
        *pools,
        policy=policy,
        models=(replace(MODEL, task=Task.EMBED),),
    )
    async with caching_gateway(*upstreams, snapshot=snapshot, store_url=store_url) as gateway:
        yield gateway


async def embed(
    gateway: Gateway,
    given: object,
    *,
    headers: Mapping[str, str] | None = None,
    token: str = TOKEN,
    **fields: object,
) -> Reply:
    body = json.dumps({"model": "m", "input": given, **fields}).encode()
    asked = request_bytes(body, path="/v1/embeddings", token=token, headers=headers)
    return await send(gateway.port, asked)


def sent(upstream: Upstream) -> list[Any]:
    """What each call asked for."""
    return [json.loads(call.body or "")["input"] for call in upstream.calls]


def answer(*vectors: list[float], tokens: int) -> Behaviour:
    """An answer with these vectors."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "model": "served-a", "data": data, "usage": usage}
    return Behaviour(calls=1, body=json.dumps(body))


async def test_a_text_alone_is_one_vector_on_a_hit_too(upstream: Upstream) -> None:
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        replies = [await embed(gateway, "abc", token=DEBUG_TOKEN) for _ in range(2)]
        await gateway.wait_ended(2)
    for reply in replies:
        assert [one["embedding"] for one in reply.json["data"]] == [[0.6, 0.8]]
        assert [one["index"] for one in reply.json["data"]] == [0]
        assert reply.json["model"] == "served-a"
    assert [cache(one) for one in replies] == ["miss", "hit"]
    assert sent(upstream) == ["abc"]
    # each input has an entry of its own, so there is none to name
    assert all("x-headworks-cache-entry" not in one.headers for one in replies)
    assert [one.cache.entry_id for one in gateway.books.ends if one.cache] == [None, None]


async def test_usage_on_a_hit_is_what_was_kept_and_billed_as_nothing(upstream: Upstream) -> None:
    upstream.play(answer([0.1], tokens=0))
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        for _ in range(2):
            reply = await embed(gateway, "X" * 1_000, encoding_format="base64")
    assert reply.json["usage"] == {"prompt_tokens": 0, "total_tokens": 0}
    end = gateway.books.ends[1]
    assert end.cache is not None
    assert (end.charges, end.cache.outcome, end.cache.tier) == (
        (),
        CacheOutcome.HIT,
        CacheTier.EMBEDDING,
    )
    assert (end.cache.saved_prompt_tokens, end.cache.saved_nanousd) == (0, 0)


async def test_of_a_batch_only_what_is_missing_is_sent_once_and_the_order_stays(
    upstream: Upstream,
) -> None:
    upstream.play(answer([1.0], tokens=3), answer([2.0], [3.0], tokens=4), answer([4.0], tokens=9))
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        await embed(gateway, "one")
        mixed = await embed(gateway, ["two", "one", "six", "two"])
        whole = await embed(gateway, ["six", "two", "one"])
        await gateway.wait_ended(3)
    assert sent(upstream) == ["one", ["two", "six"]]
    assert [one["embedding"] for one in mixed.json["data"]] == [[2.0], [1.0], [3.0], [2.0]]
    assert [one["index"] for one in mixed.json["data"]] == [0, 1, 2, 3]
    assert [one["embedding"] for one in whole.json["data"]] == [[3.0], [2.0], [1.0]]
    # three tokens of `one`, two of each other, one of them twice
    assert mixed.json["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    assert whole.json["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    middle, last = gateway.books.ends[1:]
    assert middle.charges[0].usage.prompt_tokens == 4
    assert middle.cache is not None
    assert last.cache is not None
    told = [
        (one.inputs, one.inputs_hit, one.saved_prompt_tokens) for one in (middle.cache, last.cache)
    ]
    assert told == [(4, 1, 3), (3, 3, 7)]
    assert [middle.cache.outcome, last.cache.outcome] == [CacheOutcome.MISS, CacheOutcome.HIT]


async def test_form_and_length_of_vectors_are_part_of_the_key(upstream: Upstream) -> None:
    ways: list[dict[str, object]] = [
        {},
        {"encoding_format": "base64"},
        {"encoding_format": "float"},
        {"dimensions": 1},
    ]
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        first = [await embed(gateway, "abc", **one) for one in ways]
        again = [await embed(gateway, "abc", **one) for one in ways]
    assert len(upstream.calls) == 4
    for one, other in zip(first, again, strict=True):
        assert one.json["data"] == other.json["data"]
    raw = again[1].json["data"][0]["embedding"]
    assert raw == base64.b64encode(struct.pack("<2f", 0.6, 0.8)).decode()


async def test_a_list_of_tokens_is_one_input(upstream: Upstream) -> None:
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        await embed(gateway, [1, 2, 3])
        both = await embed(gateway, [[1, 2, 3], [4, 5]])
    assert sent(upstream) == [[1, 2, 3], [[4, 5]]]
    assert len(both.json["data"]) == 2


async def test_an_answer_that_lacks_a_vector_is_an_error_and_keeps_nothing(
    upstream: Upstream,
) -> None:
    upstream.play(answer([1.0], tokens=1), answer([2.0], tokens=1), Behaviour())
    async with embedding_gateway(upstream, policy=EMBEDDING) as gateway:
        await embed(gateway, "one")
        short = await embed(gateway, ["one", "two", "six"])
        await embed(gateway, ["one", "two", "six"])
    assert (short.status, short.code) == (502, "upstream_bad_answer")
    assert sent(upstream)[-1] == ["two", "six"]


async def test_another_model_is_asked_for_the_whole_batch_and_its_vectors_are_its_own(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(answer([1.0], tokens=3), Behaviour(status=500, calls=1), answer([2.0], tokens=3))
    other_upstream.play(answer([7.0], [8.0], [7.0], tokens=6))
    given = ["one", "two", "one"]
    async with embedding_gateway(upstream, other_upstream) as gateway:
        gateway.u = 0.0
        await embed(gateway, "one")
        stood_in = await embed(gateway, given)
        again = await embed(gateway, given)
        await gateway.wait_ended(3)
    assert sent(upstream) == ["one", ["two"], ["two"]]
    assert sent(other_upstream) == [given]
    assert [one["embedding"] for one in stood_in.json["data"]] == [[7.0], [8.0], [7.0]]
    assert [one["embedding"] for one in again.json["data"]] == [[1.0], [2.0], [1.0]]
    used = gateway.books.ends[1].cache
    assert used is not None
    assert (used.inputs, used.inputs_hit, used.saved_prompt_tokens) == (3, 0, None)


async def test_a_batch_that_is_not_to_be_read_goes_whole_and_is_kept(upstream: Upstream) -> None:
    upstream.play(answer([1.0], [2.0], [1.0], tokens=6))
    async with embedding_gateway(upstream) as gateway:
        given = ["one", "two", "one"]
        fresh = await embed(gateway, given, headers={"cache-control": "no-cache"})
        kept = await embed(gateway, ["two", "one"])
    assert (fresh.status, cache(fresh), cache(kept)) == (200, "bypass", "hit")
    assert sent(upstream) == [given]
    assert len(fresh.json["data"]) == 3
    assert [one["embedding"] for one in kept.json["data"]] == [[2.0], [1.0]]


async def test_no_input_is_the_engines_to_refuse(upstream: Upstream) -> None:
    upstream.play(Behaviour(status=400))
    async with embedding_gateway(upstream) as gateway:
        reply = await embed(gateway, [])
    assert reply.status == 400
    assert sent(upstream) == [[]]


async def test_without_the_embedding_tier_a_batch_is_kept_as_a_whole(upstream: Upstream) -> None:
    async with embedding_gateway(upstream, policy=POLICY) as gateway:
        for given in (["a", "b"], ["a", "b"], ["b", "a"]):
            await embed(gateway, given)
    assert sent(upstream) == [["a", "b"], ["b", "a"]]


async def test_every_key_in_the_store_has_an_end(upstream: Upstream, cache_url: str) -> None:
    tiers = (CacheTier.LOCAL, CacheTier.SHARED, CacheTier.EMBEDDING)
    policy = replace(POLICY, tiers=tiers)
    async with Redis.from_url(cache_url) as store:
        await store.flushdb()
        async with embedding_gateway(upstream, policy=policy, store_url=cache_url) as gateway:
            await embed(gateway, ["a", "b", "c"])
            await until(lambda: has_kept(cache_url, 3), "three entries")
            keys = [one async for one in store.scan_iter(CACHE_KEYS)]
            lives = [await store.pttl(key) for key in keys]
            assert all(0 < life <= 300_000 for life in lives)
        async with embedding_gateway(upstream, policy=policy, store_url=cache_url) as other:
            reply = await embed(other, ["c", "a"])
        assert (cache(reply), other.books.end.charges) == ("hit", ())
        assert other.books.end.cache is not None
        assert other.books.end.cache.tier is CacheTier.SHARED

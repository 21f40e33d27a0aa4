"""Flights across gateways: who waits, whose mark it is, and what is left of it in the store."""

import json
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.caches.base import Asked
from inference.caches.chain import Caches
from inference.contract.wire import cache_flight_key, cached_answer_key
from inference.gateway import flying
from tests.inference.caches.rig import SHARING, Clock, caching_gateway, make_caches, running
from tests.inference.caches.test_store import entry
from tests.inference.gateway.client import BASE, opened, request_bytes
from tests.inference.stores import OwnStore, until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

KEY, MARK = b"f" * 32, b"m" * 32
ASKED = Asked("org_a", SHARING, KEY)
NAME = cache_flight_key("org_a", KEY.hex())


async def until_written(caches: Caches, store: Redis) -> None:
    """Wait until all that was to be written before has been."""
    name = cached_answer_key("org_a", MARK.hex())
    await store.unlink(name)
    caches.shared.keep(ASKED, MARK, entry())

    async def is_written() -> bool:
        return bool(await store.exists(name))

    await until(is_written, "the store to have what was kept")


async def test_once_an_answer_turns_out_not_to_be_kept_all_gateways_ask_at_once(
    upstream: Upstream, cache_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flying, "JOIN_S", 600.0)
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    unkept = Behaviour(calls=1, delay_ms=300, body=json.dumps({"choices": [choice]}))
    upstream.play(unkept, Behaviour(delay_ms=120_000))
    body = request_bytes(json.dumps({**BASE, "seed": 4713}).encode())
    async with (
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as one,
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as other,
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as third,
        opened(one.port, body) as first,
    ):
        await one.wait_for(lambda: upstream.calls)
        async with opened(other.port, body) as second, opened(third.port, body) as last:
            await first.read_head()
            await one.wait_for(lambda: len(upstream.calls) == 3)
            second.leave()
            last.leave()


async def test_a_process_ends_no_flight_but_its_own(cache_url: str) -> None:
    async with (
        running(make_caches(Clock(), store_url=cache_url)) as caches,
        Redis.from_url(cache_url) as store,
    ):
        await store.unlink(NAME)
        for other in (None, b"another"):
            assert await caches.shared.lead(ASKED) is True
            if other is not None:
                await store.set(NAME, other, px=60_000)  # ours ran out, and somebody else began
            caches.shared.land(ASKED)
            await until_written(caches, store)
            assert await store.get(NAME) == other


async def test_a_claim_that_came_too_late_is_let_go_of(tmp_path: Path) -> None:
    own = OwnStore(tmp_path)
    caches = make_caches(Clock(), store_url=own.admin_url, call_s=0.5)
    async with running(caches), Redis.from_url(own.admin_url) as store:
        assert await caches.shared.look(ASKED) is False
        own.freeze()
        try:
            assert await caches.shared.lead(ASKED) is True
        finally:
            own.thaw()

        async def is_claimed() -> bool:
            return bool(await store.exists(NAME))

        await until(is_claimed, "the claim")
        caches.shared.land(ASKED)
        await until_written(caches, store)
        assert not await is_claimed()
    own.stop()

"""Requests that are alike at the same time: one is sent, the others get its answer."""

import asyncio
import json

import pytest

from inference.caches.flight import Flights, Turn
from inference.contract.kinds import CacheOutcome
from inference.gateway import flying
from tests.inference.caches.rig import SHARING, caching_gateway
from tests.inference.caches.test_exact import cache
from tests.inference.gateway.client import BASE, chat, opened, request_bytes
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

BODY = request_bytes(json.dumps(BASE).encode())


async def test_many_alike_at_once_ask_a_worker_once(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=300))
    async with caching_gateway(upstream) as gateway:
        asked = (chat(gateway.port, stream=number % 2 == 0) for number in range(20))
        replies = await asyncio.gather(*asked)
        await gateway.wait_ended(20)
    assert {one.status for one in replies} == {200}
    assert len(upstream.calls) == len(gateway.books.openings) == 1
    outcomes = sorted(end.cache.outcome for end in gateway.books.ends if end.cache is not None)
    assert outcomes == [CacheOutcome.JOINED] * 19 + [CacheOutcome.MISS]
    told = {reply.headers["x-headworks-cache"].partition(";")[0] for reply in replies}
    assert told == {"joined", "miss"}
    assert not gateway.caches.flights  # type: ignore[union-attr]


async def test_who_waits_is_served_though_the_first_leaves(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=400))
    async with caching_gateway(upstream) as gateway:
        async with opened(gateway.port, BODY) as leader:
            await gateway.wait_for(lambda: upstream.calls)
            waiting = [asyncio.create_task(chat(gateway.port)) for _ in range(19)]
            await gateway.wait_for(lambda: len(gateway.tasks) == 20)
            leader.leave()
            replies = await asyncio.gather(*waiting)
        await gateway.wait_ended(20)
    assert {one.status for one in replies} == {200}
    assert len(upstream.calls) == 2


async def test_who_waits_is_served_though_the_first_fails(upstream: Upstream) -> None:
    upstream.play(Behaviour(calls=1, delay_ms=200, status=400), Behaviour())
    async with caching_gateway(upstream) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(10)))
    assert sorted(one.status for one in replies) == [200] * 9 + [400]
    assert len(upstream.calls) == 2


async def test_if_all_fail_all_are_told(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=20, status=400))
    async with caching_gateway(upstream) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(5)))
        await gateway.wait_ended(5)
    assert {one.status for one in replies} == {400}
    assert not gateway.caches.flights  # type: ignore[union-attr]


async def test_who_has_waited_too_long_is_never_handed_the_lead(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flying, "JOIN_S", 0.05)
    upstream.play(Behaviour(calls=1, delay_ms=600, status=400), Behaviour())
    async with caching_gateway(upstream) as gateway:
        first = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: upstream.calls)
        assert (await chat(gateway.port)).status == 200
        assert (await first).status == 400
        await gateway.wait_ended(2)
    assert not gateway.caches.flights  # type: ignore[union-attr]


async def test_an_answer_that_is_not_kept_lets_all_go_their_own_way(upstream: Upstream) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    upstream.play(Behaviour(delay_ms=100, body=json.dumps({"choices": [choice]})))
    async with caching_gateway(upstream) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(5)))
    assert [cache(one) for one in replies] == ["miss"] * 5
    assert len(upstream.calls) == 5


async def test_who_waits_is_not_given_what_another_model_said(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(calls=1, delay_ms=300, status=500), Behaviour(text="A"))
    other_upstream.play(Behaviour(text="B"))
    async with caching_gateway(upstream, other_upstream) as gateway:
        gateway.u = 0.0
        first = asyncio.create_task(chat(gateway.port))
        await gateway.wait_for(lambda: upstream.calls)
        others = await asyncio.gather(*(chat(gateway.port) for _ in range(3)))
        replies = [await first, *others]
    texts = [one.json["choices"][0]["message"]["content"] for one in replies]
    assert texts == ["B", "A", "A", "A"]
    assert "joined; tier=local" not in map(cache, replies)


async def test_gateways_wait_for_one_another(upstream: Upstream, cache_url: str) -> None:
    upstream.play(Behaviour(delay_ms=300))
    policy = SHARING
    async with (
        caching_gateway(upstream, policy=policy, store_url=cache_url) as one,
        caching_gateway(upstream, policy=policy, store_url=cache_url) as other,
    ):
        ports = [one.port, other.port] * 5
        replies = await asyncio.gather(*(chat(port, seed=4711) for port in ports))
    assert {reply.status for reply in replies} == {200}
    assert len(upstream.calls) == 1


async def test_a_gateway_goes_on_where_another_has_failed(
    upstream: Upstream, cache_url: str
) -> None:
    upstream.play(Behaviour(calls=1, delay_ms=300, status=400), Behaviour())
    async with (
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as one,
        caching_gateway(upstream, policy=SHARING, store_url=cache_url) as other,
    ):
        first = asyncio.create_task(chat(one.port, seed=4712))
        await one.wait_for(lambda: upstream.calls)
        second = await chat(other.port, seed=4712)
        assert (await first).status == 400
    assert (second.status, len(upstream.calls)) == (200, 2)


async def test_one_that_was_to_lead_and_left_has_the_next_lead() -> None:
    flights = Flights()
    assert flights.board(b"k") is None
    tickets = [flights.board(b"k") for _ in range(3)]
    first, second, third = [one for one in tickets if one is not None]
    flights.pass_on(b"k")
    assert first.landing.result() is Turn.LEAD
    first.leave()
    assert second.landing.result() is Turn.LEAD
    third.leave()
    second.leave()
    assert len(flights) == 0
    assert flights.board(b"k") is None


async def test_one_that_waits_no_more_is_passed_over() -> None:
    flights = Flights()
    flights.board(b"k")
    first, second = flights.board(b"k"), flights.board(b"k")
    assert first is not None
    assert second is not None
    first.leave()
    flights.pass_on(b"k")
    assert second.landing.result() is Turn.LEAD
    with pytest.raises(asyncio.CancelledError):
        first.landing.result()

"""Requests that find every worker full: who waits, who goes next, what becomes of the others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from inference.contract.kinds import Outcome, PoolPower, PriorityClass
from inference.decisions.queueing import Crowd
from inference.fleet.peers import PeerLoad
from tests.inference.gateway.client import BASE, Reply, chat, opened, request_bytes, send, streaming
from tests.inference.gateway.rig import (
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream, running_upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

KEYS = (key_record(TOKEN, priority=PriorityClass.INTERACTIVE),)
CALL_MS = 250


@asynccontextmanager
async def narrow(*upstreams: Upstream, slots: int = 1, **changes: object) -> AsyncIterator[Gateway]:
    """A gateway whose workers take so many requests at once."""
    pools = [
        pool_record(name, one.base_url, worker_concurrency=slots)
        for name, one in zip("ab", upstreams, strict=False)
    ]
    route = route_record(*(pool.name for pool in pools), **changes)
    async with running_gateway(configuration(*pools, routes=(route,), keys=KEYS)) as gateway:
        yield gateway
        await gateway.wait_for(lambda: not gateway.inflight)
        await gateway.wait_for(lambda: not gateway.tasks)
        assert_empty(gateway)


def assert_empty(gateway: Gateway) -> None:
    """Nobody waits, nothing is held, no worker is kept for anybody."""
    waiting = gateway.waiting
    assert (waiting.waiting, waiting.held_bytes, waiting.depths()) == (0, 0, {})
    workers = [one for pool in ("pool_a", "pool_b") for one in gateway.fleet.ready(pool)]
    assert [(one.inflight, one.promised) for one in workers] == [(0, 0)] * len(workers)
    assert gateway.metric("inflight") == 0


def asked(priority: str = "default", **fields: object) -> bytes:
    headers = {"x-headworks-priority": priority}
    return request_bytes(json.dumps({**BASE, **fields}).encode(), headers=headers)


async def begin(gateway: Gateway, upstream: Upstream) -> "asyncio.Task[Reply]":
    """A request that has the only slot."""
    task = asyncio.create_task(chat(gateway.port))
    await gateway.wait_for(lambda: gateway.inflight == 1)
    await asyncio.to_thread(upstream.wait_for, lambda report: len(report.calls) == 1)
    return task


async def queue_up(
    gateway: Gateway, *requests: bytes, already: int = 0
) -> "list[asyncio.Task[Reply]]":
    """These requests wait, in this order."""
    tasks = []
    for number, request in enumerate(requests, start=already + 1):
        tasks.append(asyncio.create_task(send(gateway.port, request)))
        await gateway.wait_for(lambda number=number: gateway.waiting.waiting == number)
    return tasks


async def test_who_leaves_while_it_waits_never_reaches_a_worker(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        async with (
            opened(gateway.port, asked()) as one,
            opened(gateway.port, asked()) as two,
            opened(gateway.port, asked()) as three,
        ):
            await gateway.wait_for(lambda: gateway.waiting.waiting == 3)
            last = (await queue_up(gateway, asked(), already=3))[0]
            for call in (one, two, three):
                call.leave()
            await gateway.wait_for(lambda: gateway.waiting.waiting == 1)
            assert gateway.metric("queue_depth", pool="pool_a") == 1
            assert [(await task).status for task in (first, last)] == [200, 200]
        assert len(upstream.calls) == 2
        ends = {end.outcome for end in gateway.books.ends}
        assert ends == {Outcome.OK, Outcome.CANCELLED}
        left = [end for end in gateway.books.ends if end.outcome is Outcome.CANCELLED]
        assert [(end.charges, end.error_code) for end in left] == [((), "client_left")] * 3
        assert gateway.metric("queue_depth", pool="pool_a") is None


async def test_a_backlog_is_bounded_and_waits_no_longer_than_the_route_allows(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=800))
    async with narrow(upstream, max_queue_wait_ms=300, max_queued=3) as gateway:
        first = await begin(gateway, upstream)
        waiting = await queue_up(gateway, *[asked()] * 3)
        refused = await send(gateway.port, asked())
        assert gateway.waiting.waiting == 3
        assert (refused.status, refused.error["code"]) == (503, "queue_full")
        assert refused.error["type"] == "server_error"
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        replies = [await task for task in waiting]
        assert [(one.status, one.error["code"]) for one in replies] == [(503, "queue_timeout")] * 3
        assert (await first).status == 200
        assert len(upstream.calls) == 1
        ends = [one for one in gateway.books.ends if one.outcome is Outcome.REFUSED]
        told = {(one.error_code, one.charges) for one in ends}
        assert told == {("queue_full", ()), ("queue_timeout", ())}
        waits = [one.queued_ms for one in ends if one.error_code == "queue_timeout"]
        assert all(wait is not None and 300 <= wait < 800 for wait in waits)
        labels = {"route": "rt_m", "class": "default", "reason": "queue_full"}
        assert gateway.metric("shed_total", **labels) == 1


async def test_a_route_may_forbid_waiting(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream, max_queue_wait_ms=0) as gateway:
        first = await begin(gateway, upstream)
        assert (await chat(gateway.port)).error["code"] == "queue_full"
        assert (await first).status == 200


async def test_the_urgent_go_first_and_the_wait_is_told(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=800, calls=1), Behaviour(delay_ms=60))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        order = ("batch", "default", "interactive")
        tasks = await queue_up(gateway, *(asked(one, user=one) for one in order))
        for task in (first, *tasks):
            assert (await task).status == 200
        users = [json.loads(call.body or "{}").get("user") for call in upstream.calls]
        assert users == [None, "interactive", "default", "batch"]
        waits = {end.origin.end_user: end.queued_ms for end in gateway.books.ends}
        assert waits[None] is None
        assert 0 < (waits["interactive"] or 0) < (waits["default"] or 0) < (waits["batch"] or 0)
        last = next(end for end in gateway.books.ends if end.origin.end_user == "batch")
        assert last.decision is not None
        assert last.decision["queued_ms"] == last.queued_ms
        labels = {"class": "batch"}
        assert gateway.metric("queue_wait_seconds_count", **labels) == 1


async def test_a_full_queue_sends_batch_away_for_the_more_urgent(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream, max_queued=1) as gateway:
        first = await begin(gateway, upstream)
        batch = (await queue_up(gateway, asked("batch")))[0]
        urgent = asyncio.create_task(send(gateway.port, asked("interactive")))
        displaced = await batch
        assert (displaced.status, displaced.error["code"]) == (503, "queue_full")
        assert [(await first).status, (await urgent).status] == [200, 200]


async def test_what_finds_room_at_another_target_does_not_wait(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    for one in (upstream, other_upstream):
        one.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream, other_upstream) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port) for _ in range(3)))
        assert [one.status for one in replies] == [200] * 3
        assert sorted(one.queued_ms is not None for one in gateway.books.ends) == [
            *(False, False),
            True,
        ]
        assert len(upstream.calls) + len(other_upstream.calls) == 3


async def test_a_further_attempt_that_gets_no_room_spends_no_retry(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    other_upstream.play(Behaviour(before_head="hang"))
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=10_000),
        pool_record("b", other_upstream.base_url, worker_concurrency=1),
    )
    route = route_record("a", "b", retry_budget_percent=0, max_queue_wait_ms=20)
    async with running_gateway(configuration(*pools, routes=(route,), keys=KEYS)) as gateway:
        async with opened(gateway.port, asked()) as call:
            await asyncio.to_thread(other_upstream.wait_for, lambda report: report.open_calls == 1)
            for _ in range(12):  # there are ten without a budget
                reply = await chat(gateway.port)
                assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
            call.leave()
            await gateway.wait_for(lambda: not gateway.inflight)
        other_upstream.play(Behaviour())
        assert (await chat(gateway.port)).status == 200
        assert gateway.metric("retries_total", route="rt_m", result="made") == 2
        assert gateway.metric("retries_total", route="rt_m", result="refused") is None


async def test_a_worker_of_which_nobody_said_what_it_takes_is_never_full(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=100))
    replies = await asyncio.gather(*(chat(gateway.port) for _ in range(20)))
    assert {one.status for one in replies} == {200}
    assert {one.queued_ms for one in gateway.books.ends} == {None}


async def test_a_stream_that_waits_is_kept_alive(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream, keep_alive_ms=50) as gateway:
        first = await begin(gateway, upstream)
        async with streaming(gateway.port) as call:
            assert await call.read_part() == b":\n"
            assert gateway.waiting.waiting == 1
            reply = await call.read_rest()
        assert (reply.is_whole, reply.text) == (True, "one two three four five")
        assert (await first).status == 200


async def test_a_stream_that_was_kept_alive_and_gets_no_room_ends_with_an_error(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream, keep_alive_ms=50, max_queue_wait_ms=120) as gateway:
        first = await begin(gateway, upstream)
        async with streaming(gateway.port) as call:
            reply = await call.read_rest()
        assert (reply.is_whole, reply.chunks[-1]["error"]["code"]) == (False, "queue_timeout")
        assert (await first).status == 200


async def test_the_routes_time_runs_out_in_the_queue_as_anywhere(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        route = route_record("a", total_timeout_ms=50)
        snapshot = gateway.holder.current
        assert snapshot is not None
        gateway.apply(replace(snapshot, routes={("org_a", "m"): route}))
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (504, "deadline_exceeded")
        assert (await first).status == 200
        assert len(upstream.calls) == 1


async def test_a_change_of_concurrency_lets_those_who_wait_in(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        waiting = await queue_up(gateway, *[asked()] * 3)
        pool = pool_record("a", upstream.base_url, worker_concurrency=3)
        gateway.apply(configuration(pool, keys=KEYS))
        await gateway.wait_for(lambda: gateway.inflight == 3)
        assert gateway.waiting.waiting == 1
        assert {(await task).status for task in (first, *waiting)} == {200}


async def test_a_pool_that_is_drained_refuses_those_who_wait_and_ends_what_runs(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        waiting = await queue_up(gateway, *[asked()] * 2)
        pool = pool_record("a", upstream.base_url, worker_concurrency=1, power=PoolPower.DRAINED)
        gateway.apply(configuration(pool, keys=KEYS))
        replies = [await task for task in waiting]
        assert [(one.status, one.error["code"]) for one in replies] == [(503, "no_capacity")] * 2
        assert (await first).status == 200
        assert len(upstream.calls) == 1


async def test_those_who_wait_go_on_when_the_worker_before_them_is_killed(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=50))
    with ExitStack() as life:
        mortal = life.enter_context(running_upstream())
        mortal.play(Behaviour(before_head="hang"))
        addresses = (mortal.base_url, upstream.base_url)
        pool = pool_record("a", *addresses, worker_concurrency=1)
        async with running_gateway(configuration(pool, keys=KEYS)) as gateway:
            stuck = asyncio.create_task(chat(gateway.port))
            await asyncio.to_thread(mortal.wait_for, lambda report: report.open_calls == 1)
            upstream.play(Behaviour(delay_ms=500, calls=1), Behaviour())
            busy = asyncio.create_task(chat(gateway.port))
            await gateway.wait_for(lambda: gateway.inflight == 2)
            waiting = await queue_up(gateway, *[asked()] * 2)
            life.close()
            replies = [await task for task in (stuck, busy, *waiting)]
            assert {one.status for one in replies} == {200}
            await gateway.wait_ended(4)
            assert_empty(gateway)


async def test_a_stop_ends_those_who_wait(upstream: Upstream) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    async with narrow(upstream) as gateway:
        first = await begin(gateway, upstream)
        busy = set(gateway.tasks)
        waiting = (await queue_up(gateway, asked()))[0]
        for task in gateway.tasks - busy:
            task.cancel()
        reply = await waiting
        assert (reply.status, reply.error["code"]) == (503, "gateway_stopping")
        assert (await first).status == 200


@pytest.mark.parametrize("size", [200_000, 400_000])
async def test_bodies_that_wait_are_bounded_by_their_bytes(upstream: Upstream, size: int) -> None:
    upstream.play(Behaviour(delay_ms=CALL_MS))
    pool = pool_record("a", upstream.base_url, worker_concurrency=1)
    async with running_gateway(configuration(pool, keys=KEYS), max_held_bytes=300_000) as gateway:
        first = await begin(gateway, upstream)
        task = asyncio.create_task(send(gateway.port, asked(user="x" * size)))
        if size < 300_000:
            await gateway.wait_for(lambda: gateway.waiting.held_bytes > size)
        statuses = [(await task).status, (await first).status]
        assert statuses == ([200, 200] if size < 300_000 else [503, 200])
        assert_empty(gateway)


async def test_whose_turn_comes_to_nothing_after_its_time_ran_out_of_time(
    upstream: Upstream,
) -> None:
    async with narrow(upstream, slots=4) as gateway:
        fleet = gateway.fleet
        full, free = ({"pool_a-0": PeerLoad(inflight=count)} for count in (4, 0))
        fleet.apply_loads(full, Crowd(2))
        (waiting,) = await queue_up(gateway, asked())
        gateway.skipped_s += 3_600
        fleet.apply_loads(free, Crowd(2))
        assert gateway.waiting.waiting == 0
        fleet.apply_loads(full, Crowd(2))
        assert (await waiting).error["code"] == "queue_timeout"
        assert upstream.calls == []

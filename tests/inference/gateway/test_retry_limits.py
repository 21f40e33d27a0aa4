"""How often and for how long is tried: the retry budget, and each target's own time-outs."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from inference.contract.events import End
from inference.contract.kinds import ChargeKind, Outcome
from inference.contract.snapshot import RouteRecord
from inference.gateway.exchange import Exchange
from inference.workers.connections import Origin
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import (
    Gateway,
    MemoryBooks,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

FREE_RETRIES = 10

BUSY_TRIES = 20
"""Of a machine that takes a tenth of a second for nothing."""


@pytest.fixture
async def sparing(upstream: Upstream, other_upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose route has no retries but the free ones, and no breaker that opens."""
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=10_000),
        pool_record("b", other_upstream.base_url),
    )
    route = route_record("a", "b", retry_budget_percent=0)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        yield gateway


async def test_without_retries_left_the_first_error_goes_to_the_caller(
    sparing: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    for _ in range(FREE_RETRIES):
        assert (await chat(sparing.port)).status == 200
    for _ in range(2):
        reply = await chat(sparing.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
    assert len(other_upstream.calls) == FREE_RETRIES
    end = sparing.books.ends[-1]
    assert (end.outcome, len(end.charges)) == (Outcome.ERROR, 1)
    assert end.decision is not None
    assert end.decision["out_of_retries"] is True
    assert sparing.metric("retries_total", route="rt_m", result="made") == FREE_RETRIES
    assert sparing.metric("retries_total", route="rt_m", result="refused") == 2
    sparing.skipped_s = 11.0
    assert (await chat(sparing.port)).status == 200


async def test_requests_that_need_no_retry_are_served_without_a_budget(
    sparing: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=FREE_RETRIES + 1), Behaviour())
    statuses = [(await chat(sparing.port)).status for _ in range(FREE_RETRIES + 3)]
    assert statuses == [*[200] * FREE_RETRIES, 502, 200, 200]


def routed(**timeouts: int) -> RouteRecord:
    """A route over two targets, the first of which has these time-outs."""
    route = route_record("a", "b")
    first, second = route.targets
    return replace(route, targets=(replace(first, **timeouts), second))


async def served(gateway: Gateway) -> list[tuple[str, str | None]]:
    """Ask once: the attempts, and what became of each."""
    assert (await chat(gateway.port)).status == 200
    return [(one.target_id, one.error_code) for one in gateway.books.ends[-1].charges]


@pytest.mark.parametrize("limit", ["first_byte_timeout_ms", "total_timeout_ms"])
async def test_a_target_that_takes_longer_than_its_own_limit_is_replaced(
    upstream: Upstream, other_upstream: Upstream, limit: str
) -> None:
    upstream.play(Behaviour(delay_ms=5_000))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools, routes=(routed(**{limit: 150}),))) as gateway:
        assert await served(gateway) == [("tgt_a", "upstream_timeout"), ("tgt_b", None)]
        assert gateway.books.end.total_ms < 3_000
        assert gateway.inflight == 0
        await gateway.wait_for(lambda: upstream.report().calls[0].is_closed_early)


async def test_a_targets_own_connect_limit_is_kept(
    upstream: Upstream, other_upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Origin._addresses

    async def resolve_slowly(origin: Origin) -> list[str]:
        if origin.host_header == f"127.0.0.1:{upstream.port}".encode():
            await asyncio.Event().wait()
        return await resolve(origin)

    monkeypatch.setattr(Origin, "_addresses", resolve_slowly)
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = routed(connect_timeout_ms=100)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        assert await served(gateway) == [("tgt_a", "upstream_unreachable"), ("tgt_b", None)]
        assert 100 <= gateway.books.end.total_ms < 1_500


async def test_another_target_keeps_the_routes_limits(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    other_upstream.play(Behaviour(delay_ms=300))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = routed(first_byte_timeout_ms=50, total_timeout_ms=100)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        assert await served(gateway) == [("tgt_a", "upstream_failed"), ("tgt_b", None)]


@pytest.mark.parametrize(
    ("limit", "behaviour"),
    [
        ("total_timeout_ms", Behaviour(gap_ms=100)),
        ("idle_timeout_ms", Behaviour(cut_after=3, ending="hang")),
    ],
)
async def test_a_stream_that_outlasts_its_targets_limit_ends_in_an_error(
    upstream: Upstream, other_upstream: Upstream, limit: str, behaviour: Behaviour
) -> None:
    upstream.play(behaviour)
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=1),
        pool_record("b", other_upstream.base_url),
    )
    async with running_gateway(configuration(*pools, routes=(routed(**{limit: 250}),))) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert (reply.status, reply.is_whole) == (200, False)
        assert json.loads(reply.events[-1])["error"]["code"] == "upstream_timeout"
        end, charge = gateway.books.end, gateway.books.charge
        assert (end.outcome, end.error_code) == (Outcome.ERROR, "upstream_timeout")
        assert charge.kind is ChargeKind.CUT
        assert other_upstream.calls == []
        assert gateway.inflight == 0
        # falling silent is the worker's doing; that a sound stream takes longer is not
        is_blamed = limit == "idle_timeout_ms"
        assert set(gateway.fleet.breakers(gateway.stopwatch())) == (
            {"pool_a-0"} if is_blamed else set()
        )


async def test_the_only_worker_is_given_a_moment_before_it_is_asked_again(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour())
    gateway.u = 0.5
    assert (await chat(gateway.port)).status == 200
    first, second = upstream.calls
    assert first.finished_at is not None
    assert 0.1 <= second.received_at - first.finished_at <= 1.0


async def test_a_worker_is_not_asked_again_if_the_routes_time_would_be_over(
    upstream: Upstream,
) -> None:
    route = route_record("a", total_timeout_ms=1_000)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        gateway.u = 0.999
        for _ in range(BUSY_TRIES):
            upstream.reset()
            upstream.play(Behaviour(status=500, delay_ms=900))
            reply = await chat(gateway.port)
            if reply.status != 504:
                break
        assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
        assert len(upstream.calls) == 1


async def test_another_worker_is_asked_at_once(
    upstream: Upstream, other_upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Exchange, "_has_paused", None)  # nobody asks it to wait
    upstream.play(Behaviour(status=500))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools)) as gateway:
        assert (await chat(gateway.port)).status == 200


@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_answer_that_came_in_time_is_not_broken_off_by_slow_books(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    close = MemoryBooks.close

    async def close_slowly(books: MemoryBooks, end: End) -> End:
        await asyncio.sleep(0.6)
        return await close(books, end)

    monkeypatch.setattr(MemoryBooks, "close", close_slowly)
    route = route_record("a")
    route = replace(route, targets=(replace(route.targets[0], total_timeout_ms=500),))
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port, stream=is_stream)
        assert (reply.status, reply.is_whole) == (200, True)
        assert gateway.books.end.outcome is Outcome.OK

"""Workers that fail are left alone for a while, and taken back by themselves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inference.contract.kinds import BreakerState, Outcome, Strategy
from tests.inference.gateway.client import BASE, chat, opened, request_bytes, streaming
from tests.inference.gateway.rig import (
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.gateway.test_fallback import DONE, FAILED, HEL, unreachable
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

FIRST = {"breaker_min_requests": 1, "breaker_open_ms": 1_000}
"""A breaker that opens on the first failure, for a second."""


@pytest.fixture
async def touchy(upstream: Upstream, other_upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose route goes to a worker with a touchy breaker, then to another."""
    pools = (
        pool_record("a", upstream.base_url, **FIRST),
        pool_record("b", other_upstream.base_url),
    )
    async with running_gateway(configuration(*pools)) as gateway:
        yield gateway


def attempts(gateway: Gateway, request: int = -1) -> list[dict[str, Any]]:
    decision = gateway.books.ends[request].decision
    assert decision is not None
    return list(decision["attempts"])  # type: ignore[call-overload]


def workers(gateway: Gateway, request: int = -1) -> list[str]:
    return [str(one["worker"]) for one in attempts(gateway, request)]


def breakers(gateway: Gateway) -> dict[str, BreakerState]:
    return gateway.fleet.breakers(gateway.stopwatch())


@pytest.mark.parametrize("strategy", list(Strategy))
async def test_a_dead_host_costs_no_request_and_three_connections(
    other_upstream: Upstream, strategy: Strategy
) -> None:
    pools = (pool_record("a", unreachable()), pool_record("b", other_upstream.base_url))
    route = route_record("a", "b", weights=(1, 1), strategy=strategy)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        for _ in range(20):
            assert (await chat(gateway.port)).status == 200
        tried = [name for request in range(20) for name in workers(gateway, request)]
        assert (tried.count("pool_a-0"), tried.count("pool_b-0")) == (3, 20)
        assert workers(gateway, 2) == ["pool_a-0", "pool_b-0"]
        assert workers(gateway, 3) == ["pool_b-0"]
        assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}
        assert gateway.metric("breakers_open", pool="pool_a") == 1
        assert gateway.metric("breaker_openings_total", pool="pool_a") == 1
        assert (
            gateway.metric("failed_attempts_total", pool="pool_a", code="upstream_unreachable") == 3
        )


async def test_an_open_breaker_lets_a_trial_through_in_time_and_without_any_probe(
    touchy: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour())
    assert (await chat(touchy.port)).status == 200
    assert workers(touchy) == ["pool_a-0", "pool_b-0"]
    assert (await chat(touchy.port)).status == 200
    assert workers(touchy) == ["pool_b-0"]
    assert len(upstream.calls) == 1
    touchy.skipped_s = 1.5
    assert breakers(touchy) == {"pool_a-0": BreakerState.HALF_OPEN}
    assert (await chat(touchy.port)).status == 200
    assert attempts(touchy) == [
        {"target": "tgt_a", "worker": "pool_a-0", "inflight": 0, "trial": True}
    ]
    assert breakers(touchy) == {}
    assert touchy.metric("breakers_open", pool="pool_a") == 0
    assert (await chat(touchy.port)).status == 200
    assert attempts(touchy) == [{"target": "tgt_a", "worker": "pool_a-0", "inflight": 0}]


async def test_one_failure_among_few_requests_takes_no_worker_out(
    pair: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour())
    for _ in range(5):
        assert (await chat(pair.port)).status == 200
    assert [workers(pair, request) for request in range(5)] == [
        ["pool_a-0", "pool_b-0"],
        *[["pool_a-0"]] * 4,
    ]


async def test_errors_inside_streams_open_the_breaker(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(frames=[HEL, FAILED, DONE], gap_ms=150))
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=3),
        pool_record("b", other_upstream.base_url),
    )
    async with running_gateway(configuration(*pools)) as gateway:
        for number in range(3):
            reply = await chat(gateway.port, stream=True)
            assert json.loads(reply.events[-1])["error"]["code"] == "upstream_failed"
            end = gateway.books.ends[number]
            assert (end.outcome, end.error_code) == (Outcome.ERROR, "upstream_failed")
            assert end.charges[0].error_code == "upstream_failed"
        assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}
        assert gateway.metric("requests_total", route="rt_m", outcome="error") == 3
        assert (await chat(gateway.port, stream=True)).text == "one two three four five"
        assert workers(gateway) == ["pool_b-0"]


@pytest.mark.parametrize("ending", ["close", "reset", "hang"])
async def test_a_stream_that_dies_after_content_counts_against_its_worker(
    upstream: Upstream, other_upstream: Upstream, ending: str
) -> None:
    upstream.play(Behaviour(cut_after=3, ending=ending, gap_ms=10))
    pools = (
        pool_record("a", upstream.base_url, **FIRST),
        pool_record("b", other_upstream.base_url),
    )
    route = route_record("a", "b", idle_timeout_ms=200)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        reply = await chat(gateway.port, stream=True)
        code = "upstream_timeout" if ending == "hang" else "upstream_closed"
        assert json.loads(reply.events[-1])["error"]["code"] == code
        assert not reply.is_whole
        assert (gateway.books.end.outcome, gateway.books.end.error_code) == (Outcome.ERROR, code)
        assert workers(gateway) == ["pool_a-0"]
        assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}
        assert (gateway.inflight, gateway.fleet.prefill_tokens()) == (0, {})


async def test_a_worker_that_accepts_and_never_answers_is_soon_left_alone(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(before_head="hang"))
    pools = (
        pool_record("a", upstream.base_url, breaker_min_requests=2),
        pool_record("b", other_upstream.base_url),
    )
    route = route_record("a", "b", first_byte_timeout_ms=150)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        for _ in range(10):
            assert (await chat(gateway.port)).status == 200
        assert [len(workers(gateway, request)) for request in range(10)] == [2, 2, *[1] * 8]
        assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(status=400, body='{"error":{"message":"x"}}'),
        Behaviour(status=401),
        Behaviour(status=404),
        Behaviour(status=429),
        Behaviour(status=503),
    ],
)
async def test_refusals_and_full_workers_open_no_breaker(
    touchy: Gateway, upstream: Upstream, behaviour: Behaviour
) -> None:
    upstream.play(behaviour)
    for _ in range(3):
        await chat(touchy.port)
        assert workers(touchy)[0] == "pool_a-0"
        touchy.skipped_s += 1.5  # those that say "not now" are passed over for a second
    assert breakers(touchy) == {}


async def test_refusals_do_not_thin_out_failures(upstream: Upstream) -> None:
    refusal = '{"error":{"message":"x"}}'
    statuses = (500, 400, 400, 500, 400, 400, 500, 400, 400)
    upstream.play(*(Behaviour(status=one, body=refusal, calls=1) for one in statuses))
    pool = pool_record("a", upstream.base_url, breaker_min_requests=3)
    route = route_record("a", max_attempts=1)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        for _ in statuses:
            await chat(gateway.port)
        assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}


async def test_a_second_worker_that_had_hardly_any_of_the_routes_time_is_not_blamed(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=250, status=500))
    other_upstream.play(Behaviour(delay_ms=5_000))
    pools = (
        pool_record("a", upstream.base_url),
        pool_record("b", other_upstream.base_url, **FIRST),
    )
    route = route_record("a", "b", total_timeout_ms=400)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        assert (await chat(gateway.port)).status == 504
        assert workers(gateway) == ["pool_a-0", "pool_b-0"]
        assert breakers(gateway) == {}


@pytest.mark.parametrize("is_stream", [False, True])
async def test_callers_that_leave_open_no_breaker(
    touchy: Gateway, upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(Behaviour(delay_ms=5_000))
    await _leave(touchy, upstream, is_stream=is_stream)
    assert (touchy.books.end.outcome, breakers(touchy)) == (Outcome.CANCELLED, {})


async def test_a_trial_whose_caller_leaves_makes_room_for_the_next(
    touchy: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour(delay_ms=5_000, calls=1), Behaviour())
    await chat(touchy.port)
    touchy.skipped_s = 1.5
    await _leave(touchy, upstream, ends=2)
    assert attempts(touchy)[0]["trial"] is True
    assert breakers(touchy) == {"pool_a-0": BreakerState.HALF_OPEN}
    assert (await chat(touchy.port)).status == 200
    assert attempts(touchy)[0]["trial"] is True
    assert breakers(touchy) == {}


async def test_a_trial_that_runs_out_of_the_routes_time_is_a_bad_one(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour(before_head="hang"))
    pools = (
        pool_record("a", upstream.base_url, **FIRST),
        pool_record("b", other_upstream.base_url),
    )
    route = route_record("a", "b", total_timeout_ms=300)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        assert (await chat(gateway.port)).status == 200
        gateway.skipped_s = 1.5
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (504, "deadline_exceeded")
        gateway.skipped_s = 3.0
        assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}
        assert (await chat(gateway.port)).status == 200
        gateway.skipped_s = 4.0
        assert breakers(gateway) == {"pool_a-0": BreakerState.HALF_OPEN}


async def test_only_one_request_at_a_time_tries_a_worker_again(
    touchy: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=1), Behaviour(delay_ms=300, calls=1), Behaviour())
    await chat(touchy.port)
    touchy.skipped_s = 1.5
    await asyncio.gather(*(chat(touchy.port) for _ in range(6)))
    served = [workers(touchy, request) for request in range(1, 7)]
    assert sorted(served) == [["pool_a-0"], *[["pool_b-0"]] * 5]


async def test_all_workers_down_is_told_as_that_and_never_by_the_breaker_alone() -> None:
    async with running_gateway(configuration(pool_record("a", unreachable()))) as gateway:
        for _ in range(4):
            reply = await chat(gateway.port)
            assert (reply.status, reply.error["code"]) == (503, "upstream_unreachable")
            assert reply.headers["retry-after"] == "5"
        # once its breaker is open the only worker is tried once a request, not twice
        assert [len(workers(gateway, request)) for request in range(4)] == [2, 1, 1, 1]
        assert attempts(gateway)[0]["panic"] is True
        assert gateway.metric("panic_attempts_total", pool="pool_a") == 2


async def test_a_pool_that_never_panics_answers_for_its_open_breakers() -> None:
    pool = pool_record("a", unreachable(), panic_percent=0)
    async with running_gateway(configuration(pool)) as gateway:
        for _ in range(2):
            await chat(gateway.port)
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "no_capacity")
        assert reply.headers["retry-after"] == "5"
        assert gateway.books.ends[-1].charges == ()


async def test_the_only_worker_serves_again_as_soon_as_it_can_whatever_its_breaker_says(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, calls=6), Behaviour())
    for _ in range(3):
        assert (await chat(gateway.port)).status == 502
    assert breakers(gateway) == {"pool_a-0": BreakerState.OPEN}
    assert (await chat(gateway.port)).status in (200, 502)
    assert (await chat(gateway.port)).status == 200
    gateway.skipped_s = 6.0
    assert (await chat(gateway.port)).status == 200
    assert breakers(gateway) == {}


async def test_if_too_few_workers_would_be_left_all_are_sent_to(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    pool = pool_record("a", upstream.base_url, other_upstream.base_url, panic_percent=60, **FIRST)
    async with running_gateway(configuration(pool)) as gateway:
        for _ in range(2):
            assert (await chat(gateway.port)).status == 200
        assert workers(gateway) == ["pool_a-0", "pool_a-1"]
        assert [one.get("panic") for one in attempts(gateway, 0)] == [None, True]
        assert [one.get("panic") for one in attempts(gateway, 1)] == [True, True]


async def _leave(
    gateway: Gateway, upstream: Upstream, *, is_stream: bool = False, ends: int = 1
) -> None:
    """Ask, and leave before an answer comes."""
    body = json.dumps({**BASE, "stream": is_stream}).encode()
    is_asked: Callable[[], bool] = lambda: upstream.report().open_calls == 1  # noqa: E731
    async with opened(gateway.port, request_bytes(body)) as call:
        await gateway.wait_for(is_asked)
        call.leave()
        await gateway.wait_ended(ends)


async def test_a_long_stream_of_a_trial_keeps_nobody_waiting(
    touchy: Gateway, upstream: Upstream
) -> None:
    hanging = Behaviour(cut_after=3, ending="hang", calls=1)
    upstream.play(Behaviour(status=500, calls=1), hanging, Behaviour())
    await chat(touchy.port)
    touchy.skipped_s = 1.5
    async with streaming(touchy.port) as call:
        await call.read_until(b"one")
        assert breakers(touchy) == {}
        assert (await chat(touchy.port)).status == 200
        assert workers(touchy) == ["pool_a-0"]

"""A second worker asked because the first is silent: every order in which the two can end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from inference.contract.events import End
from inference.contract.kinds import Accounting, ChargeKind, Outcome
from tests.inference.gateway.client import chat, streaming
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

HEDGE_MS = 60
SLOW = Behaviour(delay_ms=2_000)
LATE = Behaviour(delay_ms=220)
QUICK = Behaviour(text="quick answer")
BROKEN = Behaviour(status=500)
LATE_BROKEN = Behaviour(status=500, delay_ms=160)
WORDS = "one two three four five"
each_way: Callable[..., object] = pytest.mark.parametrize("is_stream", [False, True])


@asynccontextmanager
async def hedged(
    first: Upstream, second: Upstream, *, slots: int | None = None, **changes: object
) -> AsyncIterator[Gateway]:
    """A gateway that asks the second upstream once the first was silent for `HEDGE_MS`."""
    pools = [
        pool_record(name, one.base_url, worker_concurrency=slots)
        for name, one in (("a", first), ("b", second))
    ]
    route = route_record("a", "b", **{"hedge_after_ms": HEDGE_MS, **changes})
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        yield gateway
        await gateway.wait_for(lambda: not gateway.tasks)
        assert gateway.inflight == 0


def text_of(reply_text: str, body: bytes, *, is_stream: bool) -> str:
    if is_stream:
        return reply_text
    return str(json.loads(body)["choices"][0]["message"]["content"])


async def ask(gateway: Gateway, *, is_stream: bool, **fields: object) -> tuple[int, str]:
    """The status and the text that came, or the code of the error."""
    reply = await chat(gateway.port, stream=is_stream, **fields)
    if reply.status != 200:
        return reply.status, reply.error["code"]
    return 200, text_of(reply.text if is_stream else "", reply.body, is_stream=is_stream)


def told(end: End) -> list[tuple[int, str, ChargeKind, str | None]]:
    """Each charge: its attempt, target, kind and error."""
    return [(one.attempt, one.target_id, one.kind, one.error_code) for one in end.charges]


def marks(end: End) -> list[bool]:
    """Which attempts the decision record calls hedges."""
    assert end.decision is not None
    attempts = end.decision["attempts"]
    assert isinstance(attempts, list)
    return [one.get("hedge", False) for one in attempts]


def hedges(gateway: Gateway) -> dict[str, float]:
    results = ("won", "lost", "refused")
    counts = {one: gateway.metric("hedges_total", route="rt_m", result=one) for one in results}
    return {name: count for name, count in counts.items() if count}


async def closed_early(upstream: Upstream) -> None:
    await asyncio.to_thread(
        upstream.wait_for, lambda report: report.calls[0].is_closed_early and not report.open_calls
    )


@each_way
async def test_whoever_has_content_first_is_the_answer_and_the_other_is_cut_off(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(SLOW)
    other_upstream.play(QUICK)
    async with hedged(upstream, other_upstream) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (200, "quick answer")
        await gateway.wait_ended()
        end = gateway.books.end
        assert told(end) == [
            (1, "tgt_a", ChargeKind.ESTIMATED, "hedge_lost"),
            (2, "tgt_b", ChargeKind.FINAL, None),
        ]
        lost = end.charges[0]
        assert (lost.cost_nanousd, lost.cost_max_nanousd) == (
            0,
            gateway.books.openings[0].cost_max_nanousd,
        )
        assert (marks(end), hedges(gateway)) == ([False, True], {"won": 1})
        assert end.first_token_ms is None or end.first_token_ms >= HEDGE_MS
        await closed_early(upstream)
        (worker,) = gateway.fleet.ready("pool_a")
        assert worker.breaker.shown(gateway.stopwatch()).value == "closed"


@each_way
async def test_the_first_may_still_win_and_the_answer_says_that_it_did(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(LATE)
    other_upstream.play(SLOW)
    async with hedged(upstream, other_upstream) as gateway:
        reply = await chat(gateway.port, token=DEBUG_TOKEN, stream=is_stream)
        assert text_of(reply.text if is_stream else "", reply.body, is_stream=is_stream) == WORDS
        assert reply.headers["x-headworks-target"] == "tgt_a"
        assert reply.headers["x-headworks-attempts"] == "2"
        await gateway.wait_ended()
        end = gateway.books.end
        assert told(end) == [
            (2, "tgt_b", ChargeKind.ESTIMATED, "hedge_lost"),
            (1, "tgt_a", ChargeKind.FINAL, None),
        ]
        assert (marks(end), hedges(gateway)) == ([True, False], {"lost": 1})
        await closed_early(other_upstream)


@each_way
async def test_a_worker_in_time_is_the_only_one_that_is_asked(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    async with hedged(upstream, other_upstream, hedge_after_ms=2_000) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (200, WORDS)
        assert (len(other_upstream.calls), hedges(gateway)) == (0, {})
        assert gateway.books.charge.kind is ChargeKind.FINAL


async def test_a_stream_that_has_begun_is_not_hedged(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=90))
    async with hedged(upstream, other_upstream, hedge_after_ms=300) as gateway:
        assert await ask(gateway, is_stream=True) == (200, WORDS)
        assert len(other_upstream.calls) == 0


@each_way
async def test_a_failing_first_does_not_end_the_second(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(LATE_BROKEN)
    other_upstream.play(LATE)
    async with hedged(upstream, other_upstream) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (200, WORDS)
        assert told(gateway.books.end) == [
            (1, "tgt_a", ChargeKind.ESTIMATED, "upstream_failed"),
            (2, "tgt_b", ChargeKind.FINAL, None),
        ]
        assert hedges(gateway) == {"won": 1}


@each_way
async def test_a_failing_second_does_not_end_the_first(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(LATE)
    other_upstream.play(BROKEN)
    async with hedged(upstream, other_upstream) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (200, WORDS)
        assert told(gateway.books.end) == [
            (2, "tgt_b", ChargeKind.ESTIMATED, "upstream_failed"),
            (1, "tgt_a", ChargeKind.FINAL, None),
        ]


@each_way
async def test_a_first_that_fails_in_time_is_replaced_as_ever(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(BROKEN)
    async with hedged(upstream, other_upstream, hedge_after_ms=2_000) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (200, WORDS)
        end = gateway.books.end
        assert [one.error_code for one in end.charges] == ["upstream_failed", None]
        assert marks(end) == [False, False]


@each_way
async def test_if_both_fail_the_last_error_is_told(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(LATE_BROKEN)
    other_upstream.play(Behaviour(before_head="close"))
    async with hedged(upstream, other_upstream) as gateway:
        assert await ask(gateway, is_stream=is_stream) == (502, "upstream_failed")
        end = gateway.books.end
        assert (end.outcome, end.error_code) == (Outcome.ERROR, "upstream_failed")
        assert [one.error_code for one in end.charges] == ["upstream_failed", "upstream_closed"]


async def test_a_request_that_is_wrong_is_wrong_everywhere(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=400, delay_ms=160, body='{"message": "no"}'))
    other_upstream.play(SLOW)
    async with hedged(upstream, other_upstream) as gateway:
        assert await ask(gateway, is_stream=False) == (400, "upstream_refused")
        await closed_early(other_upstream)
        assert [one.kind for one in gateway.books.end.charges] == [ChargeKind.ESTIMATED] * 2


@each_way
async def test_a_caller_that_leaves_stops_both(
    upstream: Upstream, other_upstream: Upstream, is_stream: bool
) -> None:
    for one in (upstream, other_upstream):
        one.play(SLOW)
    async with hedged(upstream, other_upstream) as gateway:
        asking = asyncio.create_task(chat(gateway.port, stream=is_stream))
        await gateway.wait_for(lambda: gateway.inflight == 2)
        await asyncio.to_thread(other_upstream.wait_for, lambda report: report.open_calls == 1)
        asking.cancel()
        await gateway.wait_ended()
        for one in (upstream, other_upstream):
            await closed_early(one)
        end = gateway.books.end
        assert end.outcome is Outcome.CANCELLED
        assert {one.error_code for one in end.charges} == {"client_left"}
        assert {one.kind for one in end.charges} == {ChargeKind.ESTIMATED}


async def test_the_routes_time_limit_stops_both(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    for one in (upstream, other_upstream):
        one.play(SLOW)
    async with hedged(upstream, other_upstream, total_timeout_ms=200) as gateway:
        assert await ask(gateway, is_stream=False) == (504, "deadline_exceeded")
        assert [one.error_code for one in gateway.books.end.charges] == ["deadline_exceeded"] * 2


async def test_a_targets_time_limit_ends_its_own_attempt(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(SLOW)
    other_upstream.play(Behaviour(delay_ms=300))
    async with hedged(upstream, other_upstream) as gateway:
        snapshot = gateway.holder.current
        assert snapshot is not None
        route = snapshot.routes["org_a", "m"]
        first, second = route.targets
        limited = replace(route, targets=(replace(first, total_timeout_ms=150), second))
        gateway.apply(configuration(*snapshot.pools.values(), routes=(limited,)))
        assert await ask(gateway, is_stream=False) == (200, WORDS)
        assert [one.error_code for one in gateway.books.end.charges] == ["upstream_timeout", None]


async def test_nobody_is_asked_twice_where_there_is_no_other_worker(upstream: Upstream) -> None:
    upstream.play(LATE)
    route = route_record("a", hedge_after_ms=HEDGE_MS)
    pool = pool_record("a", upstream.base_url)
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        assert await ask(gateway, is_stream=False) == (200, WORDS)
        assert (len(upstream.calls), hedges(gateway)) == (1, {"refused": 1})


async def test_a_full_worker_is_no_second_one(upstream: Upstream, other_upstream: Upstream) -> None:
    for one in (upstream, other_upstream):
        one.play(LATE)
    async with hedged(upstream, other_upstream, slots=1) as gateway:
        both = [asyncio.create_task(ask(gateway, is_stream=False)) for _ in range(2)]
        assert [await one for one in both] == [(200, WORDS)] * 2
        assert hedges(gateway) == {"refused": 2}


async def test_hedges_come_out_of_the_retry_budget(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(LATE)
    async with hedged(upstream, other_upstream, retry_budget_percent=0) as gateway:
        answers = await asyncio.gather(*(ask(gateway, is_stream=False) for _ in range(12)))
        assert {status for status, _ in answers} == {200}
        assert hedges(gateway) == {"won": 10, "refused": 2}


async def test_a_strict_route_hedges_only_what_it_can_account_for(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(LATE)
    async with hedged(upstream, other_upstream, accounting=Accounting.STRICT) as gateway:
        asking = asyncio.create_task(ask(gateway, is_stream=False))
        await gateway.wait_for(lambda: gateway.books.openings)
        gateway.books.is_full = True
        assert await asking == (200, WORDS)
        assert len(other_upstream.calls) == 0
        assert len(gateway.books.openings) == 1


async def test_comments_go_on_while_two_are_asked(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(SLOW)
    other_upstream.play(Behaviour(delay_ms=250))
    async with hedged(upstream, other_upstream, keep_alive_ms=40) as gateway:
        async with streaming(gateway.port) as call:
            reply = await call.read_rest()
        assert (reply.text, reply.is_whole) == (WORDS, True)
        assert reply.body.split(b"\n").count(b":") >= 3
        await gateway.wait_ended()
        assert hedges(gateway) == {"won": 1}


async def test_a_race_whose_caller_was_sent_comments_ends_with_an_error_if_both_fail(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(LATE_BROKEN)
    other_upstream.play(LATE_BROKEN)
    async with hedged(upstream, other_upstream, keep_alive_ms=40) as gateway:
        async with streaming(gateway.port) as call:
            reply = await call.read_rest()
        assert (reply.is_whole, reply.chunks[-1]["error"]["code"]) == (False, "upstream_failed")
        assert [one.error_code for one in gateway.books.end.charges] == ["upstream_failed"] * 2

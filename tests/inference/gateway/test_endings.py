"""However a request ends, everything it held is let go of and its end is written, once."""

import asyncio
import json
import time

import pytest

from inference.contract.kinds import Accounting, ChargeKind, Outcome
from inference.workers.connections import Origin
from tests.inference.gateway.client import BASE, chat, opened, request_bytes, streaming
from tests.inference.gateway.rig import (
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

BODY = json.dumps(BASE).encode()


async def wait_closed_early(gateway: Gateway, upstream: Upstream, calls: int = 1) -> None:
    await gateway.wait_for(
        lambda: [one.is_closed_early for one in upstream.calls] == [True] * calls
    )


async def test_a_client_that_leaves_a_stream_stops_the_worker_at_once(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(text="one two " * 200, gap_ms=100))
    async with streaming(gateway.port) as call:
        await call.read_until(b"two")
        assert gateway.inflight == 1
        left = time.monotonic()
        call.leave()
        await gateway.wait_ended()
        assert time.monotonic() - left < 5.0
    await wait_closed_early(gateway, upstream)
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.http_status, end.error_code) == (
        Outcome.CANCELLED,
        499,
        "client_left",
    )
    assert charge.kind is ChargeKind.CUT
    assert 2 <= charge.usage.completion_tokens < 100
    assert charge.cost_nanousd == 10_000_000 + 2_000_000 * charge.usage.completion_tokens
    assert charge.cost_max_nanousd == gateway.books.openings[0].cost_max_nanousd


async def test_a_client_that_leaves_before_an_answer_stops_the_worker_too(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=5_000))
    for count, is_stream in enumerate((False, True), start=1):
        body = json.dumps({**BASE, "stream": is_stream}).encode()
        async with opened(gateway.port, request_bytes(body)) as call:
            await gateway.wait_for(lambda: upstream.report().open_calls == 1)
            assert gateway.inflight == 1
            call.leave()
            await gateway.wait_ended(count)
        await wait_closed_early(gateway, upstream, count)
        end = gateway.books.ends[-1]
        assert (end.outcome, end.charges[0].kind) == (Outcome.CANCELLED, ChargeKind.ESTIMATED)
        assert end.charges[0].cost_nanousd == 0
        assert end.charges[0].cost_max_nanousd == gateway.books.openings[-1].cost_max_nanousd


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("size", [100_000, 200_000])
async def test_a_client_with_a_large_body_that_leaves_is_noticed(
    upstream: Upstream, size: int, is_hot: bool
) -> None:
    """The last that is read of it stops the reading, however it is cut on the way."""
    upstream.play(Behaviour(before_head="hang"))
    body = json.dumps({**BASE, "x": "a" * size}).encode()
    snapshot = configuration(pool_record("a", upstream.base_url))
    async with running_gateway(snapshot, is_hot=is_hot) as gateway:
        async with opened(gateway.port, request_bytes(body)) as call:
            await gateway.wait_for(lambda: upstream.report().open_calls == 1)
            call.leave()
            await gateway.wait_ended()
        await wait_closed_early(gateway, upstream)
        assert gateway.books.end.outcome is Outcome.CANCELLED


async def test_a_client_that_leaves_while_a_connection_is_made_is_let_go_of(
    gateway: Gateway, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def resolve_for_ever(_origin: Origin) -> list[str]:
        asked.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(Origin, "_addresses", resolve_for_ever)
    async with opened(gateway.port, request_bytes(BODY)) as call:
        await asked.wait()
        assert gateway.inflight == 1
        call.leave()
        await gateway.wait_ended()
    assert (gateway.books.end.outcome, upstream.calls) == (Outcome.CANCELLED, [])


async def test_a_client_that_leaves_in_its_own_body_is_cancelled(gateway: Gateway) -> None:
    async with opened(gateway.port, request_bytes(BODY)[:-10]) as call:
        await gateway.wait_for(lambda: gateway.tasks)
        call.leave()
        await gateway.wait_ended()
    end = gateway.books.end
    assert (end.outcome, end.charges) == (Outcome.CANCELLED, ())
    assert gateway.books.openings == []


async def test_half_a_close_is_a_leave(gateway: Gateway, upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=100))
    async with streaming(gateway.port) as call:
        await call.read_until(b"one")
        call.writer.write_eof()
        await gateway.wait_ended()
    assert gateway.books.end.outcome is Outcome.CANCELLED


async def test_many_aborts_and_failures_leave_nothing_behind(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(
        Behaviour(gap_ms=20, calls=3), Behaviour(status=500, calls=2), Behaviour(calls=100)
    )
    for _ in range(3):
        async with streaming(gateway.port) as call:
            await call.read_part()
            call.leave()
    assert (await chat(gateway.port)).status == 502
    assert (await chat(gateway.port, stream=True)).status == 200
    await gateway.wait_ended(5)
    assert gateway.inflight == 0
    assert gateway.metric("inflight") == 0
    outcomes = {
        outcome: gateway.metric("requests_total", route="rt_m", outcome=outcome)
        for outcome in ("ok", "error", "cancelled")
    }
    assert outcomes == {"ok": 1, "error": 1, "cancelled": 3}
    assert gateway.metric("duration_seconds_count", route="rt_m") == 5


@pytest.mark.parametrize("is_stream", [False, True])
async def test_the_routes_time_limit_is_for_the_whole_request(
    upstream: Upstream, is_stream: bool
) -> None:
    upstream.play(Behaviour(delay_ms=5_000))
    route = route_record("a", total_timeout_ms=200)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port, stream=is_stream)
        assert (reply.status, reply.error["code"]) == (504, "deadline_exceeded")
        end = gateway.books.end
        assert (end.outcome, end.error_code) == (Outcome.ERROR, "deadline_exceeded")
        assert 200 <= end.total_ms < 3_000
        assert gateway.inflight == 0
        await wait_closed_early(gateway, upstream)


async def test_the_time_limit_breaks_a_running_stream(upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=100))
    route = route_record("a", total_timeout_ms=350)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert (reply.status, reply.is_whole) == (200, False)
        assert json.loads(reply.events[-1])["error"]["code"] == "deadline_exceeded"
        assert gateway.books.charge.kind is ChargeKind.CUT


async def test_a_worker_that_falls_silent_breaks_the_stream(upstream: Upstream) -> None:
    upstream.play(Behaviour(cut_after=3, ending="hang"))
    route = route_record("a", idle_timeout_ms=200)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port, stream=True)
        assert not reply.is_whole
        assert json.loads(reply.events[-1])["error"]["code"] == "upstream_timeout"
        assert gateway.books.end.error_code == "upstream_timeout"
        await wait_closed_early(gateway, upstream)


async def test_the_opening_is_in_the_books_before_anything_is_sent(
    gateway: Gateway, upstream: Upstream
) -> None:
    calls: list[int] = []
    gateway.books.wrote = lambda _fact: calls.append(len(upstream.calls))
    reply = await chat(gateway.port, max_tokens=50, n=2)
    assert calls == [0, 1]
    opening = gateway.books.openings[0]
    assert opening.event_id == reply.headers["x-request-id"] == gateway.books.end.event_id
    assert opening.origin == gateway.books.end.origin
    assert opening.prompt_tokens_max == 16 + len(json.dumps({**BASE, "max_tokens": 50, "n": 2}))
    assert opening.output_tokens_max == 100
    assert opening.cost_max_nanousd == 10**6 * (opening.prompt_tokens_max + 200)
    assert (opening.target_id, opening.worker_id) == ("tgt_a", "pool_a-0")


@pytest.mark.parametrize("accounting", list(Accounting))
async def test_without_books_a_strict_route_refuses_and_a_lenient_one_counts(
    upstream: Upstream, accounting: Accounting
) -> None:
    route = route_record("a", accounting=accounting)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        gateway.books.is_full = True
        reply = await chat(gateway.port)
        if accounting is Accounting.STRICT:
            assert (reply.status, reply.error["code"]) == (503, "accounting_unavailable")
            assert reply.headers["retry-after"] == "5"
            assert upstream.calls == []
            assert gateway.metric("requests_total", route="rt_m", outcome="refused") == 1
        else:
            assert reply.status == 200
        assert gateway.metric("events_lost_total") == 2
        assert gateway.inflight == 0
        gateway.books.is_full = False
        assert (await chat(gateway.port)).status == 200


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_given_up(
    gateway: Gateway, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.downstream.STALL_S", 0.2)
    monkeypatch.setattr("inference.gateway.protocol.FLUSH_S", 0.1)
    upstream.play(Behaviour(text=" ".join(["word" * 250] * 20_000)))
    async with streaming(gateway.port):
        await gateway.wait_ended()
        end = gateway.books.end
        assert (end.outcome, end.error_code) == (Outcome.ERROR, "client_stalled")
        await gateway.wait_for(lambda: not gateway.tasks)
    await wait_closed_early(gateway, upstream)


async def test_a_body_that_comes_too_slowly_is_given_up(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.downstream.BODY_IDLE_S", 0.1)
    async with opened(gateway.port, request_bytes(BODY)[:-10]) as call:
        await call.read_head()
        reply = await call.read_rest()
    assert (reply.status, reply.error["code"]) == (408, "request_timeout")
    assert gateway.books.end.outcome is Outcome.REFUSED


async def test_a_body_that_comes_a_byte_at_a_time_is_given_up(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.downstream.BODY_IDLE_S", 0.5)
    monkeypatch.setattr("inference.gateway.downstream.LEAST_PACE_BYTES_S", 1_000_000)
    async with opened(gateway.port, request_bytes(b" " * 10_000)[:-9_999]) as call:
        answering = asyncio.create_task(call.read_head())
        while not answering.done():
            call.writer.write(b" ")
            await asyncio.sleep(0.05)
        reply = await call.read_rest()
    assert (reply.status, reply.error["code"]) == (408, "request_timeout")


async def test_a_fault_of_ours_is_an_error_in_shape_and_still_ends_in_the_books(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("a prompt could be in here")

    monkeypatch.setattr("inference.gateway.sending.upstream_body", broken)
    reply = await chat(gateway.port)
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert b"prompt" not in reply.body
    assert (gateway.books.end.outcome, gateway.books.end.error_code) == (
        Outcome.ERROR,
        "internal_error",
    )
    assert gateway.inflight == 0

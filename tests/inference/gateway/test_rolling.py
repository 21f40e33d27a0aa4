"""Processes of a gateway replaced, drained and killed, while callers go on asking."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import Outcome
from inference.contract.snapshot import GatewayRecord
from tests.inference.gateway.client import chat, opened, request_bytes, send, streaming
from tests.inference.gateway.processes import (
    Running,
    asked_of_admin,
    calling,
    counted,
    ends_in,
    have_applied,
    publish_route,
    running_parent,
    vitals_of,
)
from tests.inference.stores import OwnStore
from tests.inference.stores import until as until_within
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

REQUESTS = "headworks_gateway_requests_total"

# Four processes start one after another, on a machine that may be busy.
until = partial(until_within, within_s=60)


@pytest.fixture
async def gateway(
    own_store: OwnStore, admin: Redis, upstream: Upstream, tmp_path: Path
) -> AsyncIterator[Running]:
    """A gateway whose two children accept."""
    async with running_parent(own_store, tmp_path / "var") as running:
        await publish_route(admin, upstream)
        await until(lambda: running.says("accepting requests", 2), "both children to accept")
        yield running


async def test_callers_see_no_failure_through_two_restarts_and_a_stop(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=40))
    first = gateway.children
    async with calling(gateway) as callers:
        await until(lambda: all(one.answers > 2 for one in callers), "every caller's answers")
        await publish_route(admin, upstream, 2, GatewayRecord("gw-1", restart_generation=1))
        await until(lambda: gateway.says("accepting requests", 4), "both to be replaced")
        await until(lambda: not set(first) & set(gateway.children), "the first two to be gone")
        second = gateway.children
        gateway.process.send_signal(signal.SIGHUP)
        await until(lambda: gateway.says("accepting requests", 6), "both to be replaced again")
        await until(lambda: not set(second) & set(gateway.children), "the second two to be gone")
        vitals = await vitals_of(admin)
        assert [one.restart_generation for one in vitals] == [1, 1]
        before = sum(one.answers for one in callers)
        counts = counted((await asked_of_admin(gateway, "/metrics")).body, REQUESTS)
        assert before <= counts <= before + len(callers)
        gateway.process.send_signal(signal.SIGTERM)
        await until(lambda: all(one.is_refused for one in callers), "the port to close")
    assert [one.failures for one in callers] == [[]] * len(callers)
    assert await gateway.process.wait() == 0
    ends = await ends_in(admin)
    assert len({one.event_id for one in ends}) == sum(one.answers for one in callers)
    assert {one.outcome for one in ends} == {Outcome.OK}


async def test_a_stream_ends_whole_on_the_process_that_is_replaced(
    gateway: Running, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=400, calls=1), Behaviour())
    async with streaming(gateway.port) as call:
        await call.read_until(b"one")
        gateway.process.send_signal(signal.SIGHUP)
        await until(lambda: gateway.says("draining"), "the first to be told")
        assert gateway.says("accepting requests", 3)
        reply = await call.read_rest()
    assert (reply.is_whole, reply.text) == (True, "one two three four five")
    await until(lambda: gateway.says("accepting requests", 4), "the second to be replaced")
    assert not gateway.says("died")


async def test_a_drained_gateway_says_so_serves_what_comes_and_keeps_no_connection(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    await publish_route(admin, upstream, 2, GatewayRecord("gw-1", is_drained=True))
    await until(lambda: have_applied(admin, 2), "both children to know")
    assert {one.is_draining for one in await vitals_of(admin)} == {True}
    ready = await send(gateway.port, request_bytes(None, path="/ready", method="GET"))
    assert (ready.status, ready.json) == (503, {"status": "draining"})
    own = await asked_of_admin(gateway, "/ready")
    assert (own.status, own.json) == (503, {"status": "draining", "accepting": 2})
    reply = await chat(gateway.port)
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    async with opened(gateway.port, request_bytes(b"{" * 100)[:-10]):
        await until(lambda: have_under_way(admin, 1), "a request that is still being sent")
    await until(lambda: have_under_way(admin, 0), "its caller to be gone")
    await publish_route(admin, upstream, 3, GatewayRecord("gw-1"))
    await until(lambda: have_applied(admin, 3), "both children to know")
    assert (await asked_of_admin(gateway, "/ready")).status == 200
    assert "connection" not in (await chat(gateway.port)).headers


async def have_under_way(admin: Redis, requests: int) -> bool:
    return sum(one.requests for one in await vitals_of(admin)) == requests


async def test_no_counter_goes_back_when_a_child_dies_and_one_that_stands_still_delays_nobody(
    gateway: Running,
) -> None:
    await asyncio.gather(*(chat(gateway.port) for _ in range(10)))
    before = (await asked_of_admin(gateway, "/metrics")).body
    assert counted(before, REQUESTS) == 10
    assert counted(before, "headworks_gateway_duration_seconds_count") == 10
    killed, kept = gateway.children
    os.kill(killed, signal.SIGKILL)
    await until(lambda: gateway.says("died"), "the death to be seen")
    after = (await asked_of_admin(gateway, "/metrics")).body
    assert counted(after, REQUESTS) == 10
    assert counted(after, "headworks_gateway_process_deaths_total") == 1
    assert counted(before, "headworks_gateway_processes") == 2
    assert counted(after, "headworks_gateway_duration_seconds_count") == 10
    await until(lambda: gateway.says("accepting requests", 3), "another in its place")
    os.kill(kept, signal.SIGSTOP)
    try:
        debug = (await asked_of_admin(gateway, "/debug")).json
        assert counted((await asked_of_admin(gateway, "/metrics")).body, REQUESTS) == 10
    finally:
        os.kill(kept, signal.SIGCONT)
    assert {one["pid"] for one in debug["processes"]} == set(gateway.children)
    assert [one["slot"] for one in debug["processes"]] == [0, 1]
    vitals = [one["vitals"] for one in debug["processes"]]
    assert {one["applied"]["version"] for one in vitals if one} == {1}
    assert (await asked_of_admin(gateway, "/health")).json == {"status": "ok"}
    assert (await asked_of_admin(gateway, "/nothing")).status == 404

"""The gateway's real processes: a parent, its children, a store and signals."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import Outcome
from inference.contract.snapshot import KeyDigest
from inference.store import STORE_TROUBLE
from tests.inference.gateway.client import chat, opened, request_bytes, streaming
from tests.inference.gateway.processes import (
    Running,
    ends_in,
    environment,
    have_applied,
    is_accepting,
    is_running,
    publish_route,
    running_parent,
    vitals_of,
)
from tests.inference.publishing import KEY, KEYS_SECTION, build, publish
from tests.inference.stores import OwnStore, until
from tests.installation import free_port
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

PAUSE_MS = 1_500


@pytest.fixture
async def gateway(own_store: OwnStore, tmp_path: Path) -> AsyncIterator[Running]:
    async with running_parent(own_store, tmp_path / "var") as running:
        yield running


async def test_children_accept_only_once_there_is_a_configuration(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    async with opened(gateway.port, request_bytes(None, path="/ready", method="GET")) as call:
        answered = asyncio.create_task(call.read_head())
        await publish_route(admin, upstream)
        assert not answered.done()
        await answered
        assert call.status == 200
    await until(lambda: gateway.says("accepting requests", 2), "both children to accept")
    reply = await chat(gateway.port)
    assert reply.json["choices"][0]["message"]["content"] == "one two three four five"


async def test_every_child_tells_of_keys_it_has_no_pepper_for(
    gateway: Running, admin: Redis
) -> None:
    lost = replace(KEY, digests=(KeyDigest(9, "ab" * 32),))
    await publish(admin, build(1, **{KEYS_SECTION: (lost,)}))
    await until(
        lambda: gateway.says("keys have a pepper this process lacks", 2), "both children to tell"
    )


async def test_every_child_says_what_it_runs_on_and_its_ends_reach_the_stream(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    await publish_route(admin, upstream)
    await until(lambda: have_applied(admin, 1), "both children to run on version 1")
    assert [one.process for one in await vitals_of(admin)] == ["gw-1/0", "gw-1/1"]
    assert {one.gateway for one in await vitals_of(admin)} == {"gw-1"}
    reply = await chat(gateway.port)

    async def has_end() -> bool:
        return bool(await ends_in(admin))

    await until(has_end, "the end in the stream")
    (end,) = await ends_in(admin)
    assert end.event_id == reply.headers["x-request-id"]
    assert (end.outcome, end.charges[0].cost_nanousd, end.seq) == (Outcome.OK, 20_000_000, 1)
    await until(lambda: is_counted(admin, 20_000_000), "the request in the vitals of one child")
    await publish_route(admin, upstream, version=2)
    await until(lambda: have_applied(admin, 2), "both children to run on version 2")


async def test_a_paused_store_holds_nobody_up_and_gets_the_ends_afterwards(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    await publish_route(admin, upstream)
    await until(lambda: have_applied(admin, 1), "both children to run on version 1")
    await admin.execute_command("CLIENT", "PAUSE", PAUSE_MS, "ALL")
    started = time.monotonic()
    replies = [await chat(gateway.port) for _ in range(5)]
    assert time.monotonic() - started < PAUSE_MS / 1000
    assert {reply.status for reply in replies} == {200}

    async def has_ends() -> bool:
        with suppress(*STORE_TROUBLE):
            return len(await ends_in(admin)) == len(replies)
        return False

    await until(has_ends, "all ends in the stream")


async def is_counted(admin: Redis, cost_nanousd: int) -> bool:
    traffic = [one for vitals in await vitals_of(admin) for one in vitals.traffic]
    return [(one.requests, one.cost_nanousd) for one in traffic] == [(1, cost_nanousd)]


async def test_a_killed_child_is_replaced_and_its_open_requests_are_closed_as_lost(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(cut_after=3, ending="hang"))
    await publish_route(admin, upstream)
    await until(lambda: gateway.says("accepting requests", 2), "both children to accept")
    async with streaming(gateway.port) as call:
        await call.read_until(b"one")
        children = gateway.children
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        reply = await call.read_rest()
    assert not reply.is_whole
    assert "[DONE]" not in reply.events
    await until(lambda: gateway.says("accepting requests", 4), "new children to accept")
    assert not set(children) & set(gateway.children)

    async def is_closed() -> bool:
        return [one.outcome for one in await ends_in(admin)] == [Outcome.LOST_GATEWAY]

    await until(is_closed, "the lost request to be closed")
    upstream.play(Behaviour())
    assert (await chat(gateway.port)).status == 200


async def test_a_stop_lets_streams_end_and_accepts_nothing_new(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=100))
    await publish_route(admin, upstream)
    async with streaming(gateway.port) as call:
        await call.read_until(b"one")
        gateway.process.send_signal(signal.SIGTERM)

        async def is_closed() -> bool:
            return not await is_accepting(gateway.port)

        await until(is_closed, "the port to close")
        reply = await call.read_rest()
    assert reply.is_whole
    assert reply.text == "one two three four five"
    assert reply.events[-1] == "[DONE]"
    assert await gateway.process.wait() == 0
    assert await vitals_of(admin) == []
    assert await admin.zcard(wire.SEEN) == 0
    assert [one.outcome for one in await ends_in(admin)] == [Outcome.OK]


async def test_children_end_when_their_parent_is_killed(gateway: Running) -> None:
    children = gateway.children
    assert len(children) == 2
    gateway.process.kill()
    await gateway.process.wait()
    await until(lambda: not any(map(is_running, children)), "the children to end")


async def test_one_that_outlives_its_parent_drains_under_a_name_of_its_own(
    gateway: Running, admin: Redis, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=300))
    await publish_route(admin, upstream)
    await until(lambda: have_applied(admin, 1), "both children to run on version 1")
    async with streaming(gateway.port) as call:
        await call.read_until(b"one")
        own = {f"gw-1/{slot}-{pid}" for slot, pid in enumerate(gateway.children)}
        gateway.process.kill()

        async def is_told() -> bool:
            records = {one.process: one for one in await vitals_of(admin)}
            return any(sum(records[name].inflight.values()) for name in own & records.keys())

        await until(is_told, "the request to be told of under the new name")
        assert (await call.read_rest()).is_whole
    await gateway.process.wait()

    async def are_gone() -> bool:
        return set(await admin.zrange(wire.SEEN, 0, -1)) == {b"gw-1/0", b"gw-1/1"}

    await until(are_gone, "both to sign off, and their numbers to be missed")


async def test_a_port_that_is_taken_is_said_by_its_settings_name(
    gateway: Running, own_store: OwnStore, tmp_path: Path
) -> None:
    second = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inference", "gateway"),
        env=environment(own_store, tmp_path / "other", gateway.port, free_port()),
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await second.communicate()
    assert second.returncode == 1
    assert b"HEADWORKS_GATEWAY_PORT" in said


async def test_a_missing_setting_is_named_and_the_status_is_2(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inference", "gateway"),
        env={"PATH": os.environ["PATH"], "HEADWORKS_VAR": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert (process.returncode, said) == (2, b"HEADWORKS_STATE_URL is not set\n")

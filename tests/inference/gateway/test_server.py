"""The server as a process runs it: it stops when told, and waits for streams only so long."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime

import pytest

from inference.contract.kinds import Outcome
from inference.gateway.server import GatewayServer, make_server
from tests.inference.gateway.client import BASE, chat, opened, request_bytes, streaming
from tests.inference.gateway.rig import Gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

ASKED = request_bytes(json.dumps(BASE).encode())


@asynccontextmanager
async def served(gateway: Gateway, *, drain_s: int) -> AsyncIterator[tuple[GatewayServer, int]]:
    """The gateway's app on a real server of its own; it has stopped at the end of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    server = make_server(gateway.app, drain_s=drain_s)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await gateway.wait_for(lambda: server.started)
    yield server, port
    server.should_exit = True
    await serving


async def test_a_stop_waits_for_streams_and_closes_free_connections(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=50))
    async with served(gateway, drain_s=5) as (server, port):
        assert (await chat(port)).headers["date"]
        async with streaming(port) as call:
            await call.read_until(b"one")
            server.should_exit = True
            reply = await call.read_rest()
    assert (reply.text, reply.is_whole) == ("one two three four five", True)
    assert [end.outcome for end in gateway.books.ends] == [Outcome.OK, Outcome.OK]


async def test_the_date_of_answers_is_that_of_the_second(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(gateway.app)
    server.config.load()
    for tick, now_s in enumerate((100.95, 101.05, 101.15, 101.99, 102.0, 107.3)):
        monkeypatch.setattr("inference.gateway.server.time.time", lambda now_s=now_s: now_s)
        assert await server.on_tick(tick) is False
        told = dict(server.server_state.default_headers)[b"date"]
        assert parsedate_to_datetime(told.decode()).timestamp() == int(now_s)
        made = server.server_state.default_headers
        assert await server.on_tick(0) is False
        assert server.server_state.default_headers is made


async def test_a_stream_that_outlasts_the_drain_is_broken_off_and_booked(
    gateway: Gateway, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.play(Behaviour(cut_after=3, ending="hang"))
    async with served(gateway, drain_s=1) as (server, port):
        async with streaming(port) as call:
            await call.read_until(b"two")
            started = time.monotonic()
            server.should_exit = True
            reply = await call.read_rest()
            assert 1.0 <= time.monotonic() - started < 5.0
        await gateway.wait_ended()
    assert not reply.is_whole
    assert json.loads(reply.events[-1])["error"]["code"] == "gateway_stopping"
    assert (gateway.books.end.outcome, gateway.inflight) == (Outcome.ERROR, 0)
    assert "Exception in ASGI application" not in caplog.text


async def test_a_stop_answers_one_more_request_on_a_kept_connection_and_closes_it(
    gateway: Gateway,
) -> None:
    async with served(gateway, drain_s=5) as (server, port):
        async with opened(port, ASKED) as call:
            await call.read_head()
            assert "connection" not in (await call.read_rest()).headers
            server.should_exit = True
            await gateway.wait_for(lambda: not server.servers[0].is_serving())
            call.writer.write(ASKED)
            call.body = b""
            await call.read_head()
            reply = await call.read_rest()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert await call.reader.read() == b""


async def test_a_stop_answers_the_request_of_a_connection_that_was_just_made(
    gateway: Gateway,
) -> None:
    async with served(gateway, drain_s=5) as (server, port):
        async with opened(port, b"") as call:
            await gateway.wait_for(lambda: server.server_state.connections)
            server.should_exit = True
            await gateway.wait_for(lambda: not server.servers[0].is_serving())
            call.writer.write(ASKED)
            await call.read_head()
            reply = await call.read_rest()
    assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_a_request_after_a_stream_that_a_stop_found_under_way_is_answered(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=50))
    async with served(gateway, drain_s=5) as (server, port):
        async with streaming(port) as call:
            await call.read_until(b"one")
            server.should_exit = True
            await gateway.wait_for(lambda: not server.servers[0].is_serving())
            assert (await call.read_rest()).is_whole
            call.writer.write(ASKED)
            call.body = b""
            await call.read_head()
            reply = await call.read_rest()
    assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_a_free_connection_holds_up_a_stop_for_a_moment_only(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.protocol.LAST_REQUEST_S", 0.1)
    async with served(gateway, drain_s=30) as (server, port):
        async with opened(port, b"") as fresh, opened(port, ASKED) as kept:
            await kept.read_head()
            await kept.read_rest()
            server.should_exit = True
            for call in (fresh, kept):
                async with asyncio.timeout(5):
                    assert await call.reader.read() == b""


async def test_a_client_that_does_not_read_does_not_hold_up_a_stop(
    gateway: Gateway, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.protocol.FLUSH_S", 0.1)
    upstream.play(Behaviour(text=" ".join(["word" * 250] * 20_000)))
    async with served(gateway, drain_s=1) as (server, port):
        async with streaming(port) as call:
            await call.read_until(b"word")
            server.should_exit = True
            await gateway.wait_ended()
            await gateway.wait_for(lambda: not server.server_state.tasks)
    assert gateway.books.end.error_code == "gateway_stopping"

"""The server as a process runs it: it stops when told, and waits for streams only so long."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from inference.contract.kinds import Outcome
from inference.gateway.server import GatewayServer, make_server
from tests.inference.gateway.client import chat, streaming
from tests.inference.gateway.rig import Gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


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

"""A page whose network stands still, on a real socket of the console's server."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.asyncio.client import ClientConnection, connect

from controlplane.models import Pool
from controlplane.services.actors import Actor
from controlplane.services.live import Census, record_sample
from controlplane.services.pools import create_pool
from dashboards.consumers import MESSAGE
from dashboards.documents import encode, message_of
from dashboards.routing import make_websocket_application
from dashboards.scenes import read_newest
from dashboards.watching import Watches
from tests.dashboards.living import LivingFleet, bucket_at, last_buckets
from tests.dashboards.sockets import SOON_S
from tests.dashboards.test_sockets import feed_of
from tests.dashboards.watchers import Watcher
from tests.inference.gateway.rig import until

pytestmark = pytest.mark.slow

EVENTS, STATES = 500, 5
SMALL_BUFFER = 4_096
MOST_HELD = 64 * 1024
"""What asyncio lets a transport keep before it says stop."""


@dataclass
class Page:
    """What a page does with documents and messages, by its own rules: see live-rules.js."""

    read: Callable[[], Any]
    values: dict[str, dict[int, Any]] = field(default_factory=dict)
    last: tuple[str, int] | None = None
    gaps: list[tuple[int, int]] = field(default_factory=list)

    async def load(self) -> None:
        document = await database_sync_to_async(self.read)()
        self.values, self.last = values_of_document(document), None

    async def hear(self, message: Any) -> None:
        """Merge what goes on from what it has; else read the document again."""
        epoch, seq = message["epoch"], message["seq"]
        if self.last is not None and (epoch, seq) != (self.last[0], self.last[1] + 1):
            self.gaps.append((self.last[1], seq))
            await self.load()
        for name, values in values_of_message(message).items():
            self.values.setdefault(name, {}).update(values)
        self.last = (epoch, seq)


def values_of_document(document: Any) -> dict[str, dict[int, Any]]:
    """By panel and series, the value of each bucket."""
    return {
        f"{name}/{trace['meta']['key']}": dict(zip(document["at"], trace["y"], strict=True))
        for name, panel in document["panels"].items()
        for trace in panel["figure"]["data"]
    }


def values_of_message(message: Any) -> dict[str, dict[int, Any]]:
    return {
        f"{name}/{key}": dict(zip(message["at"], values, strict=True))
        for name, panel in message["panels"].items()
        for key, values in panel["values"].items()
    }


@dataclass
class Traffic:
    """A pool whose newest bucket fills; each `move` writes another state of it."""

    fleet: LivingFleet
    newest: int
    moved: int = 0

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.newest, UTC) + timedelta(seconds=0.5 * self.moved)

    def move(self) -> None:
        self.moved += 1
        told = tuple(self.fleet.records(self.now.timestamp(), last_buckets(self.newest)))
        record_sample(told, Census(2, 2, ()), now=self.now)


@pytest.fixture
def traffic(watchers: list[Watcher], actor: Actor) -> Traffic:
    home = watchers[0].organisation
    pool: Pool = create_pool(
        actor,
        organisation=home,
        name="mine",
        model="gpt-x",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )
    made = Traffic(LivingFleet(None, home.pk, [pool.pk]), bucket_at(time()) - 60)
    made.move()
    return made


@dataclass
class Server:
    """A console's sockets on a real port, whose kernel keeps next to nothing for a client."""

    port: int
    state: ServerState

    def held(self) -> int:
        """The bytes it keeps for its clients."""
        return sum(one.transport.get_write_buffer_size() for one in self.state.connections)


@asynccontextmanager
async def serving(application: object) -> AsyncIterator[Server]:
    config = Config(application, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config, state, {}), sock=listener
    )
    try:
        yield Server(listener.getsockname()[1], state)
    finally:
        server.close()
        async with asyncio.timeout(SOON_S):
            await asyncio.gather(*state.tasks)


@asynccontextmanager
async def slow_client(server: Server, watcher: Watcher) -> AsyncIterator[ClientConnection]:
    """A client that takes from its network only what it is asked for."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    small.setblocking(False)
    await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", server.port))
    async with connect(
        f"ws://localhost:{server.port}/ws/live/overview/?{query_of(watcher)}",
        sock=small,
        origin=f"http://localhost:{server.port}",  # type: ignore[arg-type]
        additional_headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={watcher.session}"},
        compression=None,
        max_queue=1,
    ) as client:
        yield client


def query_of(watcher: Watcher) -> str:
    return f"organisation={watcher.organisation.pk}&window=5m"


async def test_a_client_that_does_not_read_costs_one_buffer_and_then_shows_what_there_is(
    watchers: list[Watcher], layer: Any, watches: Watches, traffic: Traffic
) -> None:
    watcher = watchers[0]
    scope, told = watcher.scope, {}
    page = Page(lambda: watcher.client.get(f"/live/overview/?{query_of(watcher)}").json())

    def move() -> None:
        traffic.move()
        told.update(message_of(read_newest(scope, traffic.now, None), epoch="e1", seq=0))

    async def tell(seq: int) -> None:
        await layer.group_send(scope.name, {"type": MESSAGE, "text": encode(told | {"seq": seq})})

    async with (
        serving(make_websocket_application(watches)) as server,
        slow_client(server, watcher) as client,
    ):
        await page.load()
        held, sizes = 0, []
        for event in range(EVENTS):
            if event % (EVENTS // STATES) == 0:
                await database_sync_to_async(move)()
            await tell(event + 1)
            held = max(held, server.held())
        (waiting,) = layer._get_layer().channels.values()
        await until(waiting.empty, SOON_S)

        async def hear() -> None:
            text = await asyncio.wait_for(client.recv(), SOON_S)
            sizes.append(len(text))
            await page.hear(json.loads(text))

        while page.last != ("e1", EVENTS):
            await hear()
        await database_sync_to_async(move)()
        await tell(EVENTS + 1)
        await hear()
    assert held <= MOST_HELD + 2 * max(sizes)
    assert len(sizes) < EVENTS / 5
    assert sum(after - before for before, after in page.gaps) > EVENTS / 2
    assert page.last == ("e1", EVENTS + 1)
    shown = page.values
    await page.load()
    # a page loaded later begins later
    begins = min(at for values in page.values.values() for at in values)
    late = {
        name: {at: value for at, value in values.items() if at >= begins}
        for name, values in shown.items()
    }
    assert late == page.values
    assert page.values["tokens/in"][traffic.newest] is not None


async def test_a_slow_client_that_leaves_is_no_fault_of_ours(
    watchers: list[Watcher], layer: Any, watches: Watches, caplog: pytest.LogCaptureFixture
) -> None:
    feed = feed_of(layer, watchers[0].scope)
    async with serving(make_websocket_application(watches)) as server:
        async with slow_client(server, watchers[0]) as client:
            while server.held() < MOST_HELD / 2:
                await feed.tick()
            client.transport.abort()
        await until(lambda: not server.state.connections, SOON_S)
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []
    assert layer._get_layer().channels == {}

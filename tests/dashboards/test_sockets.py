"""Sockets of live pages on a real channel layer: who may open one, what it hears, when it ends."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import pytest
from channels.db import database_sync_to_async
from channels.layers import channel_layers
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.conf import settings

from controlplane.environment import CHANNEL_DATABASE, with_database
from controlplane.local.places import make_places
from controlplane.local.valkey import STATE, Store, StoreUser, is_answering, start_store
from controlplane.models import Organisation
from dashboards.consumers import LiveConsumer
from dashboards.feed import Feed, Work
from dashboards.routing import make_websocket_application
from dashboards.scopes import LiveScope
from dashboards.watching import WATCH_LIFE_S, WATCHED, Watches, connect_watched, list_watched
from tests.controlplane.bridge.conftest import wait_until
from tests.dashboards.factory import scene
from tests.dashboards.sockets import SOON_S, Socket
from tests.dashboards.watchers import Watcher

pytestmark = pytest.mark.slow


ORIGIN = "http://localhost:8300"
RECHECK_S = 0.05
CYCLES, AT_ONCE = 120, 10
NOTICED_S = 10.0


@pytest.fixture
def application(watches: Watches) -> object:
    return make_websocket_application(watches, recheck_s=RECHECK_S)


def socket_of(
    application: object,
    watcher: Watcher | None,
    *,
    organisation: Organisation | None = None,
    origin: str = ORIGIN,
    page: str = "overview",
    extra: str = "",
) -> Socket:
    headers = [(b"origin", origin.encode()), (b"host", b"localhost:8300")]
    if watcher is not None:
        cookie = f"{settings.SESSION_COOKIE_NAME}={watcher.session}"
        headers.append((b"cookie", cookie.encode()))
    home = organisation or (watcher and watcher.organisation)
    query = f"organisation={home.pk if home else ''}&window=5m{extra}"
    return Socket(application, f"/ws/live/{page}/?{query}", headers)


def feed_of(layer: object, *scopes: LiveScope) -> Feed:
    """A feed that sends the same made figures to these scopes."""
    work = Work(
        holds_lead=lambda: True,
        sample=lambda now: None,
        tidy=lambda now: False,
        list_watched=lambda: scopes,
        read_scene=lambda now: lambda scope: scene(),
        release=lambda: None,
    )
    return Feed(work, layer, epoch="e1")


async def test_a_watcher_hears_each_message_in_order(
    watchers: list[Watcher], application: object, layer: object
) -> None:
    socket = socket_of(application, watchers[0])
    assert await socket.connect() is None
    feed = feed_of(layer, watchers[0].scope)
    for _ in range(3):
        assert await feed.tick() == 1
        message = await socket.hear()
        assert (message["epoch"], message["seq"]) == ("e1", feed.seqs[watchers[0].scope.name])
    assert message["seq"] == 3
    assert len(message["at"]) == 4
    await socket.leave()


async def test_what_is_watched_is_told_to_the_feed_until_it_expires(
    watchers: list[Watcher], layer: object, watches: Watches
) -> None:
    socket = socket_of(make_websocket_application(watches), watchers[0])
    assert await socket.connect() is None
    with connect_watched(settings.HEADWORKS.state_database(CHANNEL_DATABASE)) as store:
        assert watchers[0].scope in list_watched(store)
        assert 10 < store.zscore(WATCHED, watchers[0].scope.name) - store.time()[0] <= WATCH_LIFE_S
        store.zadd(WATCHED, {watchers[0].scope.name: store.time()[0] - 1})
        assert watchers[0].scope not in list_watched(store)
    await socket.leave()


@pytest.mark.parametrize("has_cookie", [False, True])
async def test_without_a_session_there_is_no_socket(
    watchers: list[Watcher], application: object, layer: object, has_cookie: bool
) -> None:
    socket = socket_of(application, None, organisation=watchers[0].organisation)
    if has_cookie:
        cookie = f"{settings.SESSION_COOKIE_NAME}=stranger"
        socket.scope["headers"].append((b"cookie", cookie.encode()))
    assert await socket.connect() == 4401


async def test_a_page_of_another_site_gets_no_socket(
    watchers: list[Watcher], application: object, layer: object
) -> None:
    socket = socket_of(application, watchers[0], origin="http://elsewhere.example")
    assert await socket.connect() == 1000


async def test_another_organisation_is_not_found_and_its_figures_are_not_heard(
    watchers: list[Watcher], application: object, layer: object
) -> None:
    mine, theirs = watchers
    refused = socket_of(application, theirs, organisation=mine.organisation)
    assert await refused.connect() == 4404
    socket = socket_of(application, theirs)
    assert await socket.connect() is None
    feed = feed_of(layer, mine.scope)
    for _ in range(3):
        await feed.tick()
    assert await socket.hears_nothing()
    await socket.leave()


@pytest.mark.parametrize(
    ("page", "extra", "code"),
    [
        ("pool", "&pool=pool_0123456789abcdefghjkmnpqrs", 4404),
        ("pool", "", 4404),
        ("nowhere", "", 4404),
        ("overview", "&window=3m", 4400),
        ("overview", "&windw=1h", 4400),
    ],
)
async def test_what_does_not_exist_has_no_socket(
    watchers: list[Watcher], application: object, layer: object, page: str, extra: str, code: int
) -> None:
    socket = socket_of(application, watchers[0], page=page, extra=extra)
    assert await socket.connect() == code


async def _after(socket: Socket, change: Callable[[], Awaitable[object]]) -> int:
    assert await socket.connect() is None
    await change()
    return await socket.closed_with()


async def test_signing_out_closes_the_socket(
    watchers: list[Watcher], application: object, layer: object
) -> None:
    async def sign_out() -> None:
        await database_sync_to_async(watchers[0].client.logout)()

    socket = socket_of(application, watchers[0])
    assert await _after(socket, sign_out) == 4401


async def test_a_role_taken_away_closes_the_socket(
    watchers: list[Watcher], application: object, layer: object
) -> None:
    async def take_away() -> None:
        await database_sync_to_async(watchers[0].user.role_bindings.all().delete)()

    socket = socket_of(application, watchers[0])
    assert await _after(socket, take_away) == 4404


async def test_without_its_layer_a_socket_closes_so_that_the_page_comes_again(
    watchers: list[Watcher], application: object, layer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = socket_of(application, watchers[0])

    async def fail(self: object, scope: LiveScope) -> None:
        raise ConnectionError

    async def lose_the_layer() -> None:
        monkeypatch.setattr("dashboards.watching.Watches.renew", fail)

    assert await _after(socket, lose_the_layer) == 1012


async def test_a_socket_whose_guard_breaks_is_closed(
    watchers: list[Watcher], application: object, layer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = socket_of(application, watchers[0])

    async def break_down(self: object, scope: LiveScope) -> None:
        raise ZeroDivisionError

    async def break_the_guard() -> None:
        monkeypatch.setattr("dashboards.watching.Watches.renew", break_down)

    assert await _after(socket, break_the_guard) == 1011


async def test_a_slow_reader_gets_the_newest_message_not_a_queue() -> None:
    sent: asyncio.Queue[str | None] = asyncio.Queue()
    may_send = asyncio.Event()

    class Slow(LiveConsumer):
        async def send(self, text_data: str | None = None, **_: object) -> None:
            await may_send.wait()
            sent.put_nowait(text_data)

    consumer = Slow(watches=None)
    relay = asyncio.create_task(consumer._relay())
    await consumer.live_message({"text": "1"})
    await asyncio.sleep(0)
    for number in range(2, 100):
        await consumer.live_message({"text": str(number)})
    may_send.set()
    async with asyncio.timeout(SOON_S):
        assert [await sent.get(), await sent.get()] == ["1", "99"]
    relay.cancel()
    assert sent.empty()


async def test_sockets_that_end_leave_nothing_behind(
    watchers: list[Watcher], layer: object, watches: Watches
) -> None:
    application = make_websocket_application(watches)

    async def come_and_go() -> None:
        socket = socket_of(application, watchers[0])
        assert await socket.connect() is None
        await socket.leave()

    async def objects_after(cycles: int) -> int:
        for _ in range(cycles // AT_ONCE):
            await asyncio.gather(*(come_and_go() for _ in range(AT_ONCE)))
        gc.collect()
        return len(gc.get_objects())

    with connect_watched(settings.HEADWORKS.state_database(CHANNEL_DATABASE)) as store:
        store.delete(WATCHED)
    before = await objects_after(CYCLES // 6)
    # one socket alone is dozens of objects
    assert await objects_after(CYCLES) - before < 10 * CYCLES
    assert [one for one in gc.get_objects() if type(one) is LiveConsumer] == []
    inner = layer._get_layer()
    assert (inner.groups, inner.channels) == ({}, {})
    with connect_watched(settings.HEADWORKS.state_database(CHANNEL_DATABASE)) as store:
        assert store.zrange(WATCHED, 0, -1) == [watchers[0].scope.name.encode()]
        assert store.pubsub_channels() == []


@dataclass
class OwnStore:
    """A Valkey of this test's own, which may be restarted."""

    store: Store
    process: Popen[bytes]

    @property
    def url(self) -> str:
        return with_database(self.store.url(self.store.users[0].role), CHANNEL_DATABASE)

    def restart(self) -> None:
        self.process.kill()
        self.process.wait(SOON_S)
        self.start()

    def start(self) -> None:
        self.process = start_store(self.store, is_lasting=False)
        wait_until(lambda: is_answering(self.store), "the store")


@pytest.fixture
def own_store(folder: Path) -> Iterator[OwnStore]:
    users = (StoreUser("all", "x", "alldbs ~* &* +@all"),)
    store = Store(STATE, make_places(folder / "var"), users)
    found = OwnStore(store, start_store(store, is_lasting=False))
    wait_until(lambda: is_answering(store), "the store")
    yield found
    found.process.kill()
    found.process.wait(SOON_S)


@pytest.fixture
async def own_layer(own_store: OwnStore) -> AsyncIterator[object]:
    """A channel layer on that store, in the place of the usual one."""
    found = RedisPubSubChannelLayer(hosts=[own_store.url])
    usual = channel_layers.set("default", found)
    yield found
    await found.flush()
    channel_layers.set("default", usual)


async def test_after_a_restart_of_the_layers_store_a_socket_hears_again_or_is_closed(
    watchers: list[Watcher], own_store: OwnStore, own_layer: object
) -> None:
    watches = Watches(own_store.url)
    socket = socket_of(make_websocket_application(watches), watchers[0])
    assert await socket.connect() is None
    feed = feed_of(own_layer, watchers[0].scope)
    await feed.tick()
    assert (await socket.hear())["seq"] == 1
    await asyncio.to_thread(own_store.restart)
    async with asyncio.timeout(NOTICED_S):
        await feed.tick()
        while await socket.hears_nothing():
            await feed.tick()
    told = await socket.next()
    if told["type"] == "websocket.close":
        assert told["code"] == 1012
    else:
        assert json.loads(told["text"])["seq"] > 1
    await socket.leave()
    await watches.close()

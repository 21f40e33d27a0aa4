"""A gateway in this process on a port of its own, with books that a test can read."""

import asyncio
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis
from uvicorn import Config
from uvicorn.server import ServerState

from inference.caches.chain import Caches
from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, Provisioner, Scope
from inference.contract.sealing import encrypt, key_bucket, token_digest
from inference.contract.snapshot import (
    BudgetRecord,
    CachePolicyRecord,
    ConfigSnapshot,
    KeyDigest,
    KeyRecord,
    LimitRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    PurgeRecord,
    RouteRecord,
    TargetRecord,
)
from inference.decisions.egress import is_forbidden_endpoint
from inference.fleet.prefixes import PrefixIndex
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.gateway.app import GatewayApp
from inference.gateway.dispatch import Dispatcher
from inference.gateway.hot import HotProtocol
from inference.gateway.protocol import GatewayProtocol
from inference.gateway.services import Grounds, Services
from inference.gateway.traffic import TrafficCounter
from inference.limits.broker import Broker
from inference.limits.leases import Leases
from inference.limits.limiter import Limiter, make_limiter
from inference.limits.names import MOST_END_USERS
from inference.observability.metrics import GatewayMetrics
from inference.queues.ladders import Ladders
from inference.queues.room import MAX_HELD_BYTES, WaitingRoom
from inference.workers.connections import Connections
from tests.inference.gateway.parts import Holder, MemoryBooks, StateStore

DATA_KEY = bytes(range(32))
PEPPERS = {2: b"new pepper".ljust(32, b"."), 1: b"old pepper".ljust(32, b".")}
KEY_ID = "0123456789abcdefghjkmnpqrs"
TOKEN = f"hw_{KEY_ID}.secret-of-this-key"
DEBUG_ID = "debug6789abcdefghjkmnpqrs0"
DEBUG_TOKEN = f"hw_{DEBUG_ID}.secret-of-the-debug-key"
CREDENTIAL = "upstream-credential-1"
SEALED_CREDENTIAL = encrypt(DATA_KEY, CREDENTIAL)

PATIENCE_S = 30.0

# $1 and $2 a thousand tokens: ten in and five out cost two cents
PRICE = PriceRecord("prc_a", "org_a", "mdl_a", 10**12, 2 * 10**12)
MODEL = ModelRecord("mdl_a", "org_a", "llama")


def key_record(token: str, **changes: object) -> KeyRecord:
    """The record of a key's text, valid under the newest pepper."""
    key_id = token.removeprefix("hw_").partition(".")[0]
    digest = KeyDigest(2, token_digest(PEPPERS[2], token))
    record = KeyRecord(key_id, "org_a", "team_a", "proj_a", (digest,))
    return replace(record, **changes)


def pool_record(name: str, *addresses: str, **changes: object) -> PoolRecord:
    """A static pool of one model at these addresses."""
    record = PoolRecord(
        f"pool_{name}",
        "org_a",
        name,
        "mdl_a",
        Provisioner.STATIC,
        Backend.VLLM,
        f"served-{name}",
        addresses=addresses,
        credential=SEALED_CREDENTIAL,
    )
    return replace(record, **changes)


def route_record(*pools: str, weights: tuple[int, ...] = (), **changes: object) -> RouteRecord:
    """The route `m` over these pools; weights fall steeply, so that `u` = 0 keeps the order."""
    weights = weights or tuple(10 ** (3 - index) for index in range(len(pools)))
    targets = tuple(
        TargetRecord(f"tgt_{name}", f"pool_{name}", weight)
        for name, weight in zip(pools, weights, strict=True)
    )
    return replace(RouteRecord("rt_m", "org_a", "m", targets), **changes)


def configuration(
    *pools: PoolRecord,
    routes: tuple[RouteRecord, ...] = (),
    keys: tuple[KeyRecord, ...] = (),
    models: tuple[ModelRecord, ...] = (MODEL,),
    prices: tuple[PriceRecord, ...] = (PRICE,),
    organisations: tuple[OrganisationRecord, ...] = (OrganisationRecord("org_a", "Water"),),
    limits: tuple[LimitRecord, ...] = (),
    budgets: tuple[BudgetRecord, ...] = (),
    policies: tuple[CachePolicyRecord, ...] = (),
    purges: tuple[PurgeRecord, ...] = (),
) -> ConfigSnapshot:
    """A snapshot around these pools; the route `m` goes over all of them unless given."""
    keys = keys or (
        key_record(TOKEN),
        key_record(DEBUG_TOKEN, scopes=(Scope.INFERENCE, Scope.DEBUG)),
    )
    sections: dict[str, dict[object, object]] = {
        "organisations": dict(index_section("organisations", organisations)),
        "models": dict(index_section("models", models)),
        "prices": dict(index_section("prices", prices)),
        "pools": dict(index_section("pools", pools)),
        "limits": dict(index_section("limits", limits)),
        "budgets": dict(index_section("budgets", budgets)),
        "caches": dict(index_section("caches", policies)),
        "purges": dict(index_section("purges", purges)),
        "routes": dict(
            index_section("routes", routes or (route_record(*(pool.name for pool in pools)),))
        ),
    }
    for key in keys:
        sections.setdefault(f"keys/{key_bucket(key.id)}", {})[key.id] = key
    return assemble(Manifest("L1", 7, {}, 0.0), sections)


@dataclass
class Gateway:
    """A running gateway and everything of it that a test looks at.

    `u` is all its chance; its stopwatch is `skipped_s` ahead.
    """

    port: int
    books: MemoryBooks
    holder: Holder
    state_store: StateStore
    fleet: FleetRegistry
    limiter: Limiter
    connections: Connections
    registry: CollectorRegistry
    tasks: set[asyncio.Task[None]]
    traffic: TrafficCounter
    app: GatewayApp = field(init=False)
    waiting: WaitingRoom = field(init=False)
    ladders: Ladders = field(init=False)
    caches: Caches | None = None
    grounds: Grounds = field(default_factory=Grounds)
    u: float = 0.0
    skipped_s: float = 0.0

    def stopwatch(self) -> float:
        return time.perf_counter() + self.skipped_s

    def apply(self, snapshot: ConfigSnapshot) -> None:
        self.holder.current = snapshot
        self.fleet.apply_snapshot(snapshot)
        self.limiter.apply_snapshot(snapshot)
        self.grounds.apply_snapshot(snapshot)

    @property
    def inflight(self) -> int:
        return sum(self.fleet.inflight().values())

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"headworks_gateway_{name}", labels)

    async def wait_for(self, condition: Callable[[], object], within_s: float = PATIENCE_S) -> None:
        """Let everything run until the condition holds."""
        await until(condition, within_s)

    async def wait_ended(self, requests: int = 1) -> None:
        """Return once so many requests are in the books and nothing is under way."""
        await self.wait_for(lambda: len(self.books.ends) >= requests and not self.inflight)


@asynccontextmanager
async def running_gateway(
    snapshot: ConfigSnapshot | None,
    *,
    body_limit_bytes: int = 1024 * 1024,
    data_key: bytes = DATA_KEY,
    peppers: Mapping[int, bytes] = PEPPERS,
    clock: Callable[[], float] = time.time,
    max_held_bytes: int = MAX_HELD_BYTES,
    is_hot: bool = True,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    store: Redis | None = None,
    most_end_users: int = MOST_END_USERS,
    idle_s: float = 5,
    caches: Caches | None = None,
) -> AsyncIterator[Gateway]:
    """A gateway of this configuration, gone at the end of the block.

    Unless it `is_hot`, every request goes by ASGI. Limits are kept in `store`, if there is one.
    """
    connections = Connections(
        is_forbidden=lambda ip, port: is_forbidden_endpoint(ip, port, frozenset()), tls=tls
    )
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    fleet = FleetRegistry(
        origin_of=connections.origin_of,
        data_key=data_key,
        chance=lambda: gateway.u,
        opened=metrics.breaker_opened,
    )
    metrics.watch_breakers(fleet.open_breakers)
    state = ServerState()
    # of a socket that doesn't say TCP, asyncio leaves small writes waiting for each other
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    gateway = Gateway(
        port=listener.getsockname()[1],
        books=MemoryBooks(),
        holder=Holder(None),
        state_store=StateStore(),
        fleet=fleet,
        limiter=make_limiter(registry, clock=clock, most_end_users=most_end_users),
        connections=connections,
        registry=registry,
        tasks=state.tasks,
        traffic=TrafficCounter(),
        caches=caches,
    )
    _queue_up(gateway, metrics, max_held_bytes=max_held_bytes)
    if snapshot is not None:
        gateway.apply(snapshot)
    gateway.app = GatewayApp(
        _services(gateway, metrics, peppers=peppers, body_limit_bytes=body_limit_bytes, clock=clock)
    )
    protocol = HotProtocol if is_hot else GatewayProtocol
    async with limits_kept_in(store, gateway.limiter.leases):
        async with _serving(gateway.app, protocol, listener, state, idle_s=idle_s):
            yield gateway
    connections.close()
    await asyncio.sleep(0)


def _queue_up(gateway: Gateway, metrics: GatewayMetrics, *, max_held_bytes: int) -> None:
    """Give a gateway its waiting room and ladders."""
    fleet = gateway.fleet
    gateway.waiting = WaitingRoom(
        fleet, metrics=metrics.queue, stopwatch=gateway.stopwatch, max_held_bytes=max_held_bytes
    )
    gateway.ladders = Ladders(
        fleet,
        queued=gateway.waiting.queued,
        snapshot=lambda: gateway.holder.current,
        clock=gateway.stopwatch,
    )
    fleet.watch_seats(freed=gateway.waiting.serve, changed=gateway.waiting.serve_all)
    metrics.queue.watch_depths(gateway.waiting.depths)
    metrics.queue.watch_ladders(gateway.ladders.taken)


def _services(
    gateway: Gateway,
    metrics: GatewayMetrics,
    *,
    peppers: Mapping[int, bytes],
    body_limit_bytes: int,
    clock: Callable[[], float],
) -> Services:
    """The parts of a process that has a gateway's."""
    return Services(
        snapshots=gateway.holder,
        state_store=gateway.state_store,
        fleet=gateway.fleet,
        dispatcher=Dispatcher(
            gateway.fleet, prefixes=PrefixIndex(), retries=RetryBudgets(), chance=lambda: gateway.u
        ),
        limiter=gateway.limiter,
        grounds=gateway.grounds,
        waiting=gateway.waiting,
        ladders=gateway.ladders,
        books=gateway.books,
        metrics=metrics,
        traffic=gateway.traffic,
        caches=gateway.caches,
        peppers=peppers,
        body_limit_bytes=body_limit_bytes,
        gateway="gw-test/0",
        clock=clock,
        stopwatch=gateway.stopwatch,
        chance=lambda: gateway.u,
        random_bits=random.getrandbits,
    )


@asynccontextmanager
async def limits_kept_in(store: Redis | None, leases: Leases) -> AsyncIterator[None]:
    """Leases and store are in step inside the block; a new store is believed at once.

    It has a second to answer: on a busy machine one that is well may be slow.
    """
    if store is None:
        yield
        return
    broker = asyncio.create_task(Broker(store, leases, settle_s=0, wait_s=1.0).run())
    await until(lambda: leases.is_usable, PATIENCE_S)
    try:
        yield
    finally:
        broker.cancel()
        with suppress(asyncio.CancelledError):
            await broker


@asynccontextmanager
async def _serving(
    app: GatewayApp,
    protocol: type[GatewayProtocol],
    listener: socket.socket,
    state: ServerState,
    *,
    idle_s: float,
) -> AsyncIterator[None]:
    """Accept on this listener without the server's own start and stop, which take 0.3 s."""
    config = Config(app, http=protocol, ws="none", lifespan="off", log_config=None)
    config.timeout_keep_alive = idle_s  # type: ignore[assignment]
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), sock=listener)
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await until(lambda: not (state.tasks or state.connections), PATIENCE_S)


async def until(condition: Callable[[], object], within_s: float) -> None:
    """Let everything run until the condition holds, or fail."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.005)

"""The composition root: the only module that names concrete adapters and puts them together.

One function a process. Each takes settings, opens what it must, and returns something that runs
until it is told to stop.
"""

import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from inference.caches.base import Parts
from inference.caches.chain import Caches
from inference.caches.link import CALL_S
from inference.contract.kinds import ProcessRole
from inference.contract.snapshot import ConfigSnapshot
from inference.contract.vitals import Vitals
from inference.decisions.egress import is_forbidden_endpoint, problem_with_address
from inference.decisions.queueing import Crowd
from inference.events.replay import Replay
from inference.events.sink import Sink
from inference.fleet.directory import DirectoryReader, DirectoryWriter, directory_path
from inference.fleet.lease import LeaderLease
from inference.fleet.peers import Peers
from inference.fleet.prefixes import PrefixIndex
from inference.fleet.registry import FleetRegistry
from inference.fleet.retries import RetryBudgets
from inference.gateway.app import GatewayApp
from inference.gateway.auth import warn_of_lost_peppers
from inference.gateway.child import Background, GatewayChild
from inference.gateway.control import ParentLink, Report
from inference.gateway.dispatch import Dispatcher
from inference.gateway.own_vitals import vitals_of
from inference.gateway.parent import GatewayParent
from inference.gateway.server import make_server
from inference.gateway.services import Services, process_name
from inference.gateway.trace_sending import Receiver, TraceSender
from inference.gateway.tracing import NoTraces, Tracer, Traces
from inference.gateway.traffic import TrafficCounter
from inference.gateway.wishes import Wishes
from inference.helper.client import HelperClient
from inference.journal import Journal
from inference.limits.limiter import Limiter, make_limiter
from inference.limits.running import background
from inference.observability.helper_metrics import HelperReading
from inference.observability.merging import families_of
from inference.observability.metrics import GatewayMetrics
from inference.observability.trace_metrics import TraceMetrics
from inference.pools.base import Host
from inference.pools.gauges import Gauges
from inference.pools.gpus import Gpus
from inference.pools.hearing import SUPERVISORS, hear
from inference.pools.host_use import HostUse
from inference.pools.log_shipping import LogShipper
from inference.pools.probes import ProbeClient
from inference.pools.registry import build_provisioners
from inference.pools.service import PoolsService
from inference.pools.supervisor import Supervisor
from inference.queues.ladders import Ladders
from inference.queues.room import WaitingRoom
from inference.settings import Settings, SettingsError
from inference.snapshots.follow import follow
from inference.snapshots.holder import SnapshotHolder
from inference.snapshots.source import DiskSource, StoreSource
from inference.store import StoreHealth, connect_store
from inference.vitals import VitalsWriter
from inference.workers.connections import Connections
from inference.workers.tls import client_context


def build_gateway(settings: Settings) -> GatewayParent:
    """The process that owns the public socket and keeps the serving ones."""
    return GatewayParent(
        host=settings.gateway_host,
        port=settings.gateway_port,
        admin_port=settings.gateway_admin_port,
        processes=settings.gateway_processes,
    )


def build_gateway_child(
    settings: Settings, *, slot: int, parent: socket.socket, generation: int | None
) -> GatewayChild:
    """One serving process. Raises OSError if the journal's disk won't have it."""
    process = process_name(settings.gateway_id, slot)
    store = connect_store(settings.state_url)
    holder = _holder(settings)
    connections = _connections(settings)
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    fleet = _fleet(settings, connections, metrics)
    directory = _directory(settings, store, fleet)
    waiting, ladders = _queueing(
        fleet, metrics, snapshot=lambda: holder.current, crowded=lambda: vitals.write_soon()
    )
    journal, health = Journal.create(settings.var / "journals"), StoreHealth("snapshots")
    traces, trace_senders = _tracing(settings, process, registry)
    services = _services(
        settings,
        process,
        holder=holder,
        health=health,
        fleet=fleet,
        waiting=waiting,
        ladders=ladders,
        limiter=make_limiter(registry, most_end_users=settings.limit_end_users),
        journal=journal,
        metrics=metrics,
        traces=traces,
    )
    wishes = Wishes(settings.gateway_id, generation=generation, tell=lambda one: link.say(one))
    identity = (os.getpid(), time.time())
    record = vitals_of(settings, services, holder, journal, wishes, identity)
    vitals = VitalsWriter(store, process, record)
    link = ParentLink(
        parent, report=lambda: Report(replace(record(), traffic=()), families_of(registry))
    )
    _follow_configuration(holder, services, wishes, vitals)
    return GatewayChild(
        server=make_server(GatewayApp(services), is_hot=settings.gateway_is_hot),
        holder=holder,
        journal=journal,
        vitals=vitals,
        connections=connections,
        link=link,
        orphan=f"{process}-{os.getpid()}",
        background=(
            _follow_snapshots(settings, holder, store, health),
            directory.follow,
            *background(store, services.limiter, process),
            Sink(journal, store).run,
            Replay(settings.var / "journals", store).run,
            Peers(store, identity, apply=fleet.apply_loads, clock=time.time, crowd=fleet.crowd).run,
            ladders.run,
            *(() if services.caches is None else (services.caches.run,)),
            vitals.run,
            *trace_senders,
        ),
        close_store=store.aclose,
    )


def build_supervisor(settings: Settings) -> PoolsService:
    """The process that keeps the pools' workers, leading or standing by."""
    process = f"{SUPERVISORS}{socket.gethostname()}-{os.getpid()}"
    store = connect_store(settings.state_url)
    holder = _holder(settings)
    clock = _steady_clock()
    probes = ProbeClient(own_ports=settings.own_ports, tls=client_context(settings.ca_bundle))
    supervisor = Supervisor(
        holder=holder,
        lease=LeaderLease(store, owner=process, clock=clock),
        writer=DirectoryWriter(
            store, data_key=settings.data_key, path=directory_path(settings.var)
        ),
        provisioners=build_provisioners(Host(settings, os.environ, clock, probes)),
        hear=partial(hear, store),
        clock=clock,
    )
    gauges = Gauges(
        workers=supervisor.measurable,
        probes=probes,
        host=HostUse(stopwatch=time.monotonic),
        gpus=Gpus(),
        clock=time.time,
        stopwatch=time.monotonic,
    )
    logs = LogShipper(store, logs=supervisor.logs, data_key=settings.data_key, clock=time.time)
    vitals = VitalsWriter(store, process, _pools_vitals_of(process, supervisor, holder, gauges))
    holder.subscribe(lambda _snapshot: vitals.write_soon())
    return PoolsService(
        supervisor=supervisor,
        vitals=vitals,
        background=(
            _follow_snapshots(settings, holder, store, StoreHealth("snapshots")),
            gauges.run,
            logs.run,
        ),
        close_store=store.aclose,
    )


def _pools_vitals_of(
    process: str, supervisor: Supervisor, holder: SnapshotHolder, gauges: Gauges
) -> Callable[[], Vitals]:
    """What a supervisor says of itself."""
    started_at = time.time()

    def record() -> Vitals:
        return Vitals(
            role=ProcessRole.POOLS,
            gateway="",
            process=process,
            pid=os.getpid(),
            started_at=started_at,
            written_at=time.time(),
            applied=holder.applied,
            directory_generation=supervisor.directory_generation,
            directory_token=supervisor.directory_token,
            is_leader=supervisor.is_leader,
            workers=gauges.current(),
        )

    return record


def _steady_clock() -> Callable[[], float]:
    """Seconds since the epoch that a correction of the system's clock moves in no direction."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def _follow_configuration(
    holder: SnapshotHolder, services: Services, wishes: Wishes, vitals: VitalsWriter
) -> None:
    """Have every part hear of a new configuration."""
    for apply in (wishes.apply_snapshot, services.fleet.apply_snapshot):
        holder.subscribe(apply)
    holder.subscribe(services.limiter.apply_snapshot)
    holder.subscribe(services.grounds.apply_snapshot)
    holder.subscribe(lambda _snapshot: vitals.write_soon())
    holder.subscribe(partial(warn_of_lost_peppers, peppers=services.peppers))


def _directory(settings: Settings, store: Redis, fleet: FleetRegistry) -> DirectoryReader:
    """The directory as it comes, for the fleet to follow."""
    path = directory_path(settings.var)
    directory = DirectoryReader(store, data_key=settings.data_key, path=path)
    directory.subscribe(fleet.apply_directory)
    return directory


def _connections(settings: Settings) -> Connections:
    return Connections(
        is_forbidden=partial(is_forbidden_endpoint, own_ports=settings.own_ports),
        tls=partial(client_context, settings.ca_bundle),
    )


def _fleet(settings: Settings, connections: Connections, metrics: GatewayMetrics) -> FleetRegistry:
    fleet = FleetRegistry(
        origin_of=connections.origin_of,
        data_key=settings.data_key,
        chance=random.random,
        opened=metrics.breaker_opened,
        crowd=Crowd(settings.gateway_processes),
    )
    metrics.watch_breakers(fleet.open_breakers)
    return fleet


def _queueing(
    fleet: FleetRegistry,
    metrics: GatewayMetrics,
    *,
    snapshot: Callable[[], ConfigSnapshot | None],
    crowded: Callable[[], None],
) -> tuple[WaitingRoom, Ladders]:
    """Who waits for workers with room, and what routes do less well meanwhile."""
    waiting = WaitingRoom(
        fleet, metrics=metrics.queue, stopwatch=time.perf_counter, crowded=crowded
    )
    ladders = Ladders(fleet, queued=waiting.queued, snapshot=snapshot, clock=time.perf_counter)
    fleet.watch_seats(freed=waiting.serve, changed=waiting.serve_all)
    metrics.queue.watch_depths(waiting.depths)
    metrics.queue.watch_ladders(ladders.taken)
    return waiting, ladders


def _caches(settings: Settings, metrics: GatewayMetrics) -> Caches:
    """What is kept of answers, here and in the cache store."""
    caches = Caches(
        Parts(
            data_key=settings.data_key,
            store_url=settings.cache_url,
            local_bytes=settings.cache_local_bytes,
            embedding_bytes=settings.cache_embedding_bytes,
            clock=time.time,
            call_s=CALL_S,
            helper_socket=settings.helper_socket,
        )
    )
    metrics.caches.watch(caches.gauges)
    if (client := caches.semantic.client) is not None:
        metrics.watch_helper(partial(_helper_reading, client))
    return caches


def _helper_reading(client: HelperClient) -> HelperReading:
    return HelperReading(asdict(client.counts), client.is_up)


def check_settings(settings: Settings) -> None:
    """Raise SettingsError if spans may not be sent where they are to go."""
    problem = settings.otlp_url and problem_with_address(settings.otlp_url, settings.own_ports)
    if problem:
        raise SettingsError(f"HEADWORKS_OTLP_ENDPOINT {problem}")


def _tracing(
    settings: Settings, process: str, registry: CollectorRegistry
) -> tuple[Traces, tuple[Background, ...]]:
    """What requests have to do with traces, and what sends those; nothing if nobody receives."""
    metrics = TraceMetrics(registry)
    if settings.otlp_url is None:
        return NoTraces(), ()
    tracer = Tracer(
        metrics,
        ratio=settings.trace_ratio,
        trusts_caller=settings.trusts_trace_flags,
        random_bits=random.getrandbits,
    )
    receiver = Receiver(
        settings.otlp_url,
        header_lines=settings.otlp_headers,
        connections=_connections(settings),
    )
    # loaded only where it is used: its library takes a tenth of a second and 10 MB of each process
    encoder = import_module("inference.observability.spans").SpanEncoder(process)
    sender = TraceSender(
        tracer.queue, encoder=encoder, receiver=receiver, metrics=metrics, chance=random.random
    )
    return tracer, (sender.run,)


def _services(
    settings: Settings,
    process: str,
    *,
    holder: SnapshotHolder,
    health: StoreHealth,
    fleet: FleetRegistry,
    waiting: WaitingRoom,
    ladders: Ladders,
    limiter: Limiter,
    journal: Journal,
    metrics: GatewayMetrics,
    traces: Traces,
) -> Services:
    return Services(
        snapshots=holder,
        state_store=health,
        fleet=fleet,
        dispatcher=Dispatcher(
            fleet, prefixes=PrefixIndex(), retries=RetryBudgets(), chance=random.random
        ),
        limiter=limiter,
        waiting=waiting,
        ladders=ladders,
        books=journal,
        metrics=metrics,
        traffic=TrafficCounter(),
        traces=traces,
        caches=_caches(settings, metrics),
        peppers=settings.peppers,
        body_limit_bytes=settings.body_limit_bytes,
        gateway=process,
        clock=time.time,
        stopwatch=time.perf_counter,
        chance=random.random,
        random_bits=random.getrandbits,
    )


def _follow_snapshots(
    settings: Settings, holder: SnapshotHolder, store: Redis, health: StoreHealth
) -> Background:
    disk = DiskSource(settings.var / "snapshots", settings.data_key)
    return partial(follow, holder, disk=disk, store=StoreSource(store), health=health)


def _holder(settings: Settings) -> SnapshotHolder:
    return SnapshotHolder(
        settings.data_key,
        own_ports=settings.own_ports,
        allow_remote_code=settings.allow_remote_code,
        allow_fake_workers=settings.allow_fake_workers,
    )

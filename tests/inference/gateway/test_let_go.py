"""What goes wrong with one attempt keeps nobody from letting go of the others."""

import asyncio
import gc
import json
import weakref

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract.kinds import LimitSubject, LimitUnit
from inference.contract.snapshot import LimitRecord
from inference.decisions.plan import PlannedTarget
from inference.decisions.routing.base import Choice, Room
from inference.errors import GatewayError, HedgeLost, UpstreamClosed
from inference.fleet.worker import Lease
from inference.gateway.attempts import Attempt, Moment
from inference.gateway.dispatch import Placement
from inference.gateway.hedging import ending_of
from inference.gateway.protocol import GatewayProtocol
from tests.inference.gateway.client import BASE, opened, request_bytes
from tests.inference.gateway.rig import configuration, pool_record, route_record, running_gateway
from tests.inference.limits.rig import SEEDED
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

BODY = json.dumps(BASE).encode()
PARALLEL = LimitRecord("lim_a", "org_a", "few", LimitSubject.ORGANISATION, LimitUnit.PARALLEL, 1)


async def test_an_attempt_that_cannot_be_ended_holds_neither_the_next_one_nor_limits(
    client: Redis,
    admin: Redis,
    upstream: Upstream,
    other_upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await admin.mset(SEEDED)
    released: list[Lease] = []

    def failing_once(lease: Lease, *given: object, **named: object) -> None:
        released.append(lease)
        release(lease, *given, **named)  # type: ignore[arg-type]
        if len(released) == 1:
            raise RuntimeError("the first one")

    release = Lease.release
    monkeypatch.setattr(Lease, "release", failing_once)
    for one in (upstream, other_upstream):
        one.play(Behaviour(delay_ms=2_000))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = route_record("a", "b", hedge_after_ms=20)
    snapshot = configuration(*pools, routes=(route,), limits=(PARALLEL,))
    with capture_logs() as logs:
        async with running_gateway(snapshot, store=client) as gateway:
            async with opened(gateway.port, request_bytes(BODY)) as call:
                await gateway.wait_for(lambda: gateway.inflight == 2)
                call.leave()
                await gateway.wait_ended()
            assert gateway.metric("limit_parallel") == 0
            assert [one.target_id for one in gateway.books.end.charges] == ["tgt_b"]
    assert [one["worker_id"] for one in logs if one["event"] == "attempt not ended"] == ["pool_a-0"]


async def test_an_attempt_is_ended_from_outside_while_its_time_runs_out() -> None:
    pool, route = pool_record("a", "http://127.0.0.1:9/v1"), route_record("a")
    async with running_gateway(configuration(pool, routes=(route,))) as gateway:
        (worker,) = gateway.fleet.ready("pool_a")
        room = Room(route.targets[0], [worker], 0)
        placement = Placement(
            PlannedTarget(route.targets[0], pool, None, None), Choice(room, worker), 0
        )
        attempt = Attempt(1, placement, Moment(0, 0.0), route=route)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0) as attempt.limit:
                await asyncio.sleep(1)
        assert gateway.inflight == 1
        attempt.end(1.0, HedgeLost())
        assert gateway.inflight == 0
        assert attempt.charge is not None
        assert attempt.charge.error_code == "hedge_lost"


@pytest.mark.parametrize(
    ("ended", "is_stream", "ending"),
    [
        (b"whole", False, type(None)),
        (b"begun", True, HedgeLost),
        (UpstreamClosed(), False, UpstreamClosed),
        (ValueError("a fault of ours"), False, HedgeLost),
        (asyncio.CancelledError(), False, HedgeLost),
    ],
)
async def test_an_attempt_that_was_overtaken_is_whole_only_with_its_whole_answer(
    ended: bytes | BaseException, is_stream: bool, ending: type[GatewayError | None]
) -> None:
    async def attempt() -> bytes:
        if isinstance(ended, bytes):
            return ended
        raise ended

    task = asyncio.ensure_future(attempt())
    await asyncio.wait([task])
    assert type(ending_of(task, is_stream=is_stream)) is ending


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("is_left", [True, False])
async def test_a_lost_connection_leaves_nothing_to_the_collector(
    upstream: Upstream, is_hot: bool, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[GatewayProtocol]] = []
    connection_made = GatewayProtocol.connection_made

    def noted(protocol: GatewayProtocol, transport: asyncio.Transport) -> None:
        made.append(weakref.ref(protocol))
        connection_made(protocol, transport)

    monkeypatch.setattr(GatewayProtocol, "connection_made", noted)
    upstream.play(Behaviour(delay_ms=200 if is_left else 0))
    snapshot = configuration(pool_record("a", upstream.base_url))
    async with running_gateway(snapshot, is_hot=is_hot) as gateway:
        gc.collect()
        gc.disable()
        try:
            async with opened(gateway.port, request_bytes(BODY)) as call:
                if is_left:
                    await gateway.wait_for(lambda: gateway.inflight)
                else:
                    await call.read_head()
                call.leave()
                await gateway.wait_for(lambda: made and made[0]() is None)
        finally:
            gc.enable()

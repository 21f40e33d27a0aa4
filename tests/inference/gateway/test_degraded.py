"""Routes under load: which steps they take, what requests are spared, and what is said of it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from inference.contract.kinds import DegradationStep, Outcome, PriorityClass
from inference.decisions.queueing import Crowd
from inference.fleet.peers import PeerLoad
from tests.inference.gateway.client import BASE, CHAT, Reply, request_bytes, send
from tests.inference.gateway.rig import (
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream

KEYS = (key_record(TOKEN, priority=PriorityClass.INTERACTIVE),)
ALL_STEPS = tuple(DegradationStep)


@asynccontextmanager
async def busy_route(
    *upstreams: Upstream, taken: int, steps: tuple[DegradationStep, ...] = ALL_STEPS
) -> AsyncIterator[Gateway]:
    """A route in two tiers at most that others kept full until it had taken so many steps."""
    pools = [
        pool_record(name, one.base_url, worker_concurrency=4)
        for name, one in zip("ab", upstreams, strict=False)
    ]
    route = route_record(*(pool.name for pool in pools), degradation=steps)
    tiers = tuple(replace(one, tier=tier) for tier, one in enumerate(route.targets))
    route = replace(route, targets=tiers)
    async with running_gateway(configuration(*pools, routes=(route,), keys=KEYS)) as gateway:
        full = {f"pool_{name}-0": PeerLoad(inflight=4) for name in "ab"}
        gateway.fleet.apply_loads(full, Crowd(2))
        gateway.ladders.look()
        for _ in range(taken):
            gateway.skipped_s += 10
            gateway.ladders.look()
        gateway.fleet.apply_loads({}, Crowd(1))
        yield gateway
        assert gateway.inflight == 0


async def ask(
    gateway: Gateway,
    priority: str = "interactive",
    *,
    path: str = CHAT,
    base: Mapping[str, object] = BASE,
    **fields: object,
) -> Reply:
    body = json.dumps({**base, **fields}).encode()
    headers = {"x-headworks-priority": priority}
    return await send(gateway.port, request_bytes(body, path=path, headers=headers))


async def test_steps_are_taken_one_by_one_and_given_back_and_told(upstream: Upstream) -> None:
    with capture_logs() as logs:
        async with busy_route(upstream, taken=2) as gateway:
            assert gateway.ladders.taken() == {"rt_m": 2}
            assert gateway.metric("degradation_steps", route="rt_m") == 2
            gateway.ladders.look()
            gateway.skipped_s += 60
            gateway.ladders.look()
            assert gateway.ladders.taken() == {"rt_m": 1}
    told = [(one["event"], one["step"]) for one in logs if "step" in one]
    assert told == [
        ("degradation step taken", "trim_batch"),
        ("degradation step taken", "smaller_model"),
        ("degradation step given back", "smaller_model"),
    ]


async def test_those_who_wait_here_and_elsewhere_count_as_load(upstream: Upstream) -> None:
    async with busy_route(upstream, taken=0) as gateway:
        crowd = Crowd(2, 0, {"pool_a": 4})
        gateway.fleet.apply_loads({}, crowd)
        gateway.ladders.look()
        gateway.skipped_s += 10
        gateway.ladders.look()
        assert gateway.ladders.taken() == {"rt_m": 1}


async def test_a_pool_without_a_bound_is_never_saturated(upstream: Upstream) -> None:
    async with busy_route(upstream, taken=0) as gateway:
        route = route_record("a", degradation=ALL_STEPS)
        gateway.apply(configuration(pool_record("a", upstream.base_url), routes=(route,)))
        gateway.fleet.apply_loads({"pool_a-0": PeerLoad(inflight=400)}, Crowd(2))
        gateway.ladders.look()
        gateway.skipped_s += 10
        gateway.ladders.look()
        assert gateway.ladders.taken() == {}


@pytest.mark.parametrize(
    ("path", "asked", "sent"),
    [
        (CHAT, {"max_completion_tokens": 4_000}, {"max_completion_tokens": 512}),
        (CHAT, {"max_tokens": 4_000}, {"max_tokens": 512}),
        (CHAT, {}, {"max_tokens": 512}),
        ("/v1/completions", {"max_tokens": 4_000}, {"max_tokens": 512}),
    ],
)
async def test_batch_answers_are_trimmed_and_it_is_said(
    upstream: Upstream, path: str, asked: Mapping[str, object], sent: Mapping[str, int]
) -> None:
    base = BASE if path == CHAT else {"model": "m", "prompt": "ping"}
    async with busy_route(upstream, taken=1) as gateway:
        reply = await ask(gateway, "batch", path=path, base=base, **asked)
        assert reply.headers["x-headworks-degraded"] == "trim_batch"
        body = json.loads(upstream.calls[0].body or "")
        assert {name: one for name, one in body.items() if name.startswith("max_")} == sent
        end = gateway.books.end
        assert end.output_tokens_max == 512
        assert end.decision is not None
        assert end.decision["degraded"] == ["trim_batch"]
        labels = {"route": "rt_m", "step": "trim_batch"}
        assert gateway.metric("degraded_requests_total", **labels) == 1


@pytest.mark.parametrize(
    ("priority", "fields"),
    [
        ("interactive", {"max_tokens": 4_000}),
        ("default", {"max_tokens": 4_000}),
        ("batch", {"max_tokens": 512}),
        ("batch", {"max_tokens": 4_000, "min_tokens": 1_000}),
    ],
)
async def test_nothing_else_is_changed(
    upstream: Upstream, priority: str, fields: Mapping[str, object]
) -> None:
    async with busy_route(upstream, taken=1) as gateway:
        reply = await ask(gateway, priority, **fields)
        assert "x-headworks-degraded" not in reply.headers
        body = json.loads(upstream.calls[0].body or "")
        assert {name: body[name] for name in fields} == fields
        assert gateway.books.end.output_tokens_max == fields["max_tokens"]


async def test_everybody_gets_the_smaller_model(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with busy_route(upstream, other_upstream, taken=2) as gateway:
        reply = await ask(gateway)
        assert (reply.status, reply.headers["x-headworks-degraded"]) == (200, "smaller_model")
        assert gateway.books.charge.target_id == "tgt_b"
        assert len(upstream.calls) == 0


@pytest.mark.parametrize(
    ("taken", "statuses"), [(2, [200, 200, 200]), (3, [503, 200, 200]), (4, [503, 503, 200])]
)
async def test_batch_is_shed_first_and_then_default(
    upstream: Upstream, taken: int, statuses: list[int]
) -> None:
    async with busy_route(upstream, taken=taken) as gateway:
        classes = ("batch", "default", "interactive")
        replies = [await ask(gateway, one, max_tokens=5) for one in classes]
        assert [one.status for one in replies] == statuses
        for reply, priority in zip(replies, classes, strict=True):
            if reply.status == 503:
                assert reply.error["code"] == "request_shed"
                assert reply.headers["x-headworks-degraded"] == f"shed_{priority}"
                assert 1 <= int(reply.headers["retry-after"]) <= 60
                labels = {"route": "rt_m", "class": priority, "reason": "degraded"}
                assert gateway.metric("shed_total", **labels) == 1
        refused = [one for one in gateway.books.ends if one.outcome is Outcome.REFUSED]
        assert len(refused) == statuses.count(503)
        assert [one.charges for one in refused] == [()] * len(refused)


async def test_a_route_takes_its_own_steps_in_its_own_order(upstream: Upstream) -> None:
    steps = (DegradationStep.SHED_BATCH,)
    async with busy_route(upstream, taken=3, steps=steps) as gateway:
        assert gateway.ladders.taken() == {"rt_m": 1}
        assert (await ask(gateway, "batch")).status == 503
        assert (await ask(gateway, "default")).status == 200


async def test_a_route_that_is_degraded_asks_no_second_worker(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with busy_route(upstream, other_upstream, taken=1) as gateway:
        snapshot = gateway.holder.current
        assert snapshot is not None
        route = replace(snapshot.routes["org_a", "m"], hedge_after_ms=10)
        gateway.apply(configuration(*snapshot.pools.values(), routes=(route,), keys=KEYS))
        await asyncio.gather(*(ask(gateway) for _ in range(3)))
        assert gateway.metric("hedges_total", route="rt_m", result="won") is None
        assert len(other_upstream.calls) == 0

"""Workers drained to be kept and restarted one by one, by a supervisor on a real store."""

import time
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import PoolPower, WorkerState
from inference.pools.base import Source
from inference.pools.hearing import hear
from tests.inference.pools.rig import FAKE, READY_AFTER_S, Rig, all_in, say


async def test_a_cordoned_worker_is_drained_once_the_gateways_say_so_and_comes_back(
    serving: Rig,
) -> None:
    await say(serving, 2, inflight=1)
    serving.want(replace(FAKE, cordoned=(1,)))
    await serving.look()
    assert (await serving.states())["pool_a-1"] is WorkerState.DRAINING
    generation = (await serving.directory()).generation
    await say(serving, generation, inflight=1)
    await serving.look(9_999)
    assert (await serving.states())["pool_a-1"] is WorkerState.DRAINING
    await say(serving, generation, inflight=0)
    await serving.look(1)
    assert await serving.states() == {
        "pool_a-0": WorkerState.READY,
        "pool_a-1": WorkerState.DRAINED,
    }
    serving.want(FAKE)
    await serving.look()
    assert await serving.states() == all_in(WorkerState.READY)
    assert serving.fake.told == []
    assert serving.fake.starts == ["pool_a-0", "pool_a-1"]


async def test_a_drained_pool_keeps_its_workers_and_a_new_one_starts_drained(serving: Rig) -> None:
    serving.want(replace(FAKE, power=PoolPower.DRAINED, replicas=3))
    for _ in range(4):
        await serving.look(READY_AFTER_S)
    assert await serving.states() == all_in(WorkerState.DRAINED, range(3))
    assert serving.fake.told == []


async def test_a_restart_of_one_worker_drains_it_and_starts_it_anew(serving: Rig) -> None:
    serving.want(replace(FAKE, worker_restarts={"1": 1}))
    await serving.look()
    assert await serving.states() == {
        "pool_a-0": WorkerState.READY,
        "pool_a-1": WorkerState.DRAINING,
    }
    for _ in range(4):
        await serving.look(READY_AFTER_S)
    assert await serving.states() == all_in(WorkerState.READY)
    assert serving.fake.starts == ["pool_a-0", "pool_a-1", "pool_a-1"]


async def test_a_gateway_that_fell_silent_holds_up_a_drain_until_its_deadline(serving: Rig) -> None:
    await serving.client.zadd(wire.SEEN, {"gw-2/0": time.time()})
    serving.want(replace(FAKE, power=PoolPower.STOPPED))
    await serving.look()
    await serving.look(FAKE.drain_timeout_s - 1)
    assert serving.fake.told == []
    await serving.look(1)
    assert serving.fake.told == ["pool_a-0", "pool_a-1"]


async def test_silent_is_who_was_seen_of_late_and_has_no_vitals(client: Redis, rig: Rig) -> None:
    await say(rig, 1, inflight=0)
    seen = {"gw-0": 0, "gw-1/0": 0, "gw-2/1": -605, "pools/host-1": 0}
    await client.zadd(wire.SEEN, {name: time.time() + age for name, age in seen.items()})
    heard = await hear(client)
    assert heard.silent == {"gw-1/0"}
    assert [one.process for one in heard.vitals] == ["gw-0"]


async def test_a_gateway_of_another_release_is_as_good_as_silent(client: Redis, rig: Rig) -> None:
    await say(rig, 1, inflight=0)
    for name in ("gw-9/0", "pools/host-1"):
        await client.set(wire.vitals_key(name), b'{"v":2,"d":{}}')
    heard = await hear(client)
    assert heard.silent == {"gw-9/0"}
    assert [one.process for one in heard.vitals] == ["gw-0"]


async def test_a_worker_is_measured_while_it_drains_and_while_it_is_drained(
    serving: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving.fake, "source_of", lambda _worker_id: Source(None))
    await say(serving, 2, inflight=1)
    serving.want(replace(FAKE, cordoned=(1,)))
    await serving.look()
    measured = [one.worker_id for one in serving.supervisor.measurable()]
    assert measured == ["pool_a-0", "pool_a-1"]

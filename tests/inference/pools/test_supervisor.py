"""The supervisor on a real store, with workers and a clock that the test moves."""

from dataclasses import replace

from inference.contract import wire
from inference.contract.kinds import PoolPower, WorkerState
from inference.decisions.lifecycle import Presence
from inference.fleet.directory import read_directory
from inference.pools.supervisor import REFRESH_S
from tests.inference.pools.engines import DATA_KEY
from tests.inference.pools.rig import FAKE, READY_AFTER_S, Rig, all_in, say


async def test_wanted_workers_are_started_shown_and_shown_ready(rig: Rig) -> None:
    rig.want(FAKE)
    await rig.look()
    first = await rig.directory()
    assert first.generation == 1
    assert await rig.states() == all_in(WorkerState.STARTING)
    assert rig.fake.starts == ["pool_a-0", "pool_a-1"]
    await rig.look(READY_AFTER_S)
    assert (await rig.directory()).generation == 2
    assert await rig.states() == all_in(WorkerState.READY)
    assert rig.supervisor.is_leader
    assert rig.supervisor.directory_generation == 2


async def test_without_a_change_the_generation_stays(serving: Rig) -> None:
    before = await serving.directory()
    await serving.look(1)
    await serving.look(REFRESH_S)
    assert await serving.directory() == before


async def test_without_a_snapshot_nothing_is_done(rig: Rig) -> None:
    await rig.look()
    assert rig.supervisor.is_leader is False
    assert await read_directory(rig.client, data_key=DATA_KEY) is None


async def test_a_dead_worker_is_shown_and_started_again(serving: Rig) -> None:
    serving.fake.die("pool_a-1")
    await serving.look()
    assert (await serving.states())["pool_a-1"] is WorkerState.BACKING_OFF
    await serving.look(1)
    await serving.look(READY_AFTER_S)
    entry = (await serving.directory()).workers[1]
    assert (entry.state, entry.restarts) == (WorkerState.READY, 1)
    assert serving.fake.starts == ["pool_a-0", "pool_a-1", "pool_a-1"]


async def test_what_a_dead_leader_left_is_killed_before_the_restart(serving: Rig) -> None:
    serving.fake.die("pool_a-0", leaving=Presence.LEADERLESS)
    await serving.look()
    assert serving.fake.sight("pool_a-0").presence is Presence.GONE
    await serving.look(1)
    assert serving.fake.starts[-1] == "pool_a-0"


async def test_a_refused_start_is_shown_with_its_reason_and_where_it_would_be(rig: Rig) -> None:
    rig.fake.refusal = "port 9 is taken on 127.0.0.1"
    rig.want(replace(FAKE, replicas=1))
    await rig.look()
    (entry,) = (await rig.directory()).workers
    assert (entry.state, entry.detail) == (
        WorkerState.BACKING_OFF,
        "port 9 is taken on 127.0.0.1",
    )
    assert entry.base_url == "http://127.0.0.1:9/v1"


async def test_fewer_replicas_end_a_worker_once_the_gateways_have_left_it(serving: Rig) -> None:
    await say(serving, 2, inflight=1)
    serving.want(replace(FAKE, replicas=1))
    await serving.look()
    assert (await serving.states())["pool_a-1"] is WorkerState.DRAINING
    generation = (await serving.directory()).generation
    await serving.look(1)
    await say(serving, generation, inflight=1)
    await serving.look(1)
    assert serving.fake.told == []
    await say(serving, generation, inflight=0)
    await serving.look(1)
    assert serving.fake.told == ["pool_a-1"]
    await serving.look(1)
    assert await serving.states() == all_in(WorkerState.READY, [0])


async def test_gateways_that_never_answer_delay_a_drain_to_its_deadline(serving: Rig) -> None:
    await say(serving, 1, inflight=0)
    serving.want(replace(FAKE, power=PoolPower.STOPPED))
    await serving.look()
    await serving.look(FAKE.drain_timeout_s - 1)
    assert serving.fake.told == []
    await serving.look(1)
    assert serving.fake.told == ["pool_a-0", "pool_a-1"]


async def test_vitals_of_another_release_delay_a_drain_to_its_deadline(serving: Rig) -> None:
    await serving.client.set(wire.vitals_key("gw-9/0"), b"{}")
    serving.want()
    await serving.look()
    await serving.look(FAKE.drain_timeout_s - 1)
    assert serving.fake.told == []
    await serving.look(1)
    assert serving.fake.told == ["pool_a-0", "pool_a-1"]


async def test_when_no_gateway_is_heard_nobody_is_taken_to_have_left_a_worker(
    serving: Rig,
) -> None:
    serving.want(replace(FAKE, power=PoolPower.STOPPED))
    await serving.look()
    await serving.client.delete(wire.vitals_key("gw-0"), wire.SEEN)
    await serving.look(1)
    assert serving.fake.told == []


async def test_a_stopped_and_a_deleted_pool_end_their_workers(serving: Rig) -> None:
    serving.want(replace(FAKE, power=PoolPower.STOPPED))
    for _ in range(3):
        await serving.look()
    assert await serving.states() == {}
    serving.want(FAKE)
    await serving.look()
    assert await serving.states() == all_in(WorkerState.STARTING)
    serving.want()
    for _ in range(3):
        await serving.look()
    assert await serving.states() == {}


async def test_a_restart_goes_through_the_replicas_one_by_one(serving: Rig) -> None:
    serving.want(replace(FAKE, restart_generation=1))
    await serving.look()
    assert await serving.states() == {
        "pool_a-0": WorkerState.DRAINING,
        "pool_a-1": WorkerState.READY,
    }
    for _ in range(2):
        await serving.look()
    assert (await serving.states())["pool_a-1"] is WorkerState.READY
    for _ in range(5):
        await serving.look(READY_AFTER_S)
    assert await serving.states() == all_in(WorkerState.READY)
    assert serving.fake.starts == ["pool_a-0", "pool_a-1", "pool_a-0", "pool_a-1"]


async def test_a_stubborn_worker_is_killed_at_the_end_of_its_grace(serving: Rig) -> None:
    serving.fake.ignore_signals("pool_a-0")
    serving.want()
    for _ in range(2):
        await serving.look()
    await serving.look(FAKE.drain_timeout_s)
    assert (await serving.states())["pool_a-0"] is WorkerState.DRAINING
    await serving.look(5)
    await serving.look()
    assert await serving.states() == {}

"""The pools process from outside: started, killed, replaced; a stand-in is the engine."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import decode_vitals
from inference.contract.kinds import PoolPower, ProcessRole
from inference.contract.vitals import Vitals
from inference.decisions.lifecycle import Presence
from inference.pools.groups import members_of, presence_of
from inference.pools.hearing import hear
from tests.inference.pools.engines import POOL, STANDIN, records_of
from tests.inference.pools.processes import WORKER, PoolsProcesses
from tests.inference.stores import OwnStore, until

pytestmark = pytest.mark.fault


def make_engine(folder: Path) -> Path:
    """An engine's Python that runs the stand-in whatever module it is asked for."""
    engine = folder / "engine-python"
    engine.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} --mood {folder / "mood"} "$@"\n')
    engine.chmod(0o700)
    return engine


def make_models(folder: Path) -> Path:
    model = folder / "models" / "smollm2-135m-instruct"
    model.mkdir(parents=True)
    (model / "config.json").touch()
    return folder / "models"


@pytest.fixture
async def pools(own_store: OwnStore, admin: Redis, tmp_path: Path) -> AsyncIterator[PoolsProcesses]:
    """A supervisor whose one worker is ready."""
    made = PoolsProcesses(
        own_store, admin, tmp_path / "var", make_engine(tmp_path), make_models(tmp_path)
    )
    await made.want(POOL)
    made.start()
    await made.wait_ready()
    yield made
    made.end_all()


def have_nothing_to_do(folder: Path) -> None:
    """Have the engine say so: without any gateway its own word ends a drain."""
    (folder / "mood.metrics").write_text("vllm:num_requests_running 0\n")


async def test_a_killed_server_is_ended_whole_and_comes_back_by_itself(
    pools: PoolsProcesses,
) -> None:
    before = pools.record
    await until(lambda: len(members_of(before.pid)) == 2, "its child")
    os.kill(before.pid, signal.SIGKILL)
    await pools.wait_ready(restarts=1)
    assert members_of(before.pid) == ()
    assert pools.record.pid != before.pid


async def test_a_killed_supervisors_worker_is_adopted_without_a_restart_or_a_gap(
    pools: PoolsProcesses,
) -> None:
    before, entry = pools.record, await pools.entry()
    pools.end(signal.SIGKILL)
    assert presence_of(before) is Presence.RUNNING
    pools.start()
    await until(lambda: leads(pools.admin, pools.processes[-1].pid), "the next leader")
    assert await pools.entry() == entry
    assert pools.record == before


async def vitals_of(client: Redis) -> Sequence[Vitals]:
    return (await hear(client)).vitals


async def leads(client: Redis, pid: int) -> bool:
    vitals = await vitals_of(client)
    return any(one.is_leader and one.pid == pid for one in vitals)


async def test_a_worker_nobody_wants_when_the_next_supervisor_comes_is_ended(
    pools: PoolsProcesses, tmp_path: Path
) -> None:
    have_nothing_to_do(tmp_path)
    before = pools.record
    pools.end(signal.SIGKILL)
    await pools.want(replace(POOL, power=PoolPower.STOPPED))
    pools.start()
    await pools.wait_for(lambda entry: entry is None, "no worker")
    assert presence_of(before) is Presence.GONE
    assert records_of(pools.var) == ()


async def test_a_stopped_supervisor_frees_its_lease_and_leaves_its_workers(
    pools: PoolsProcesses,
) -> None:
    before = pools.record
    assert pools.end(signal.SIGTERM) == 0
    assert await pools.admin.exists(wire.LEADER) == 0
    assert await vitals_of(pools.admin) == []
    assert presence_of(before) is Presence.RUNNING


async def test_a_second_supervisor_stands_by_and_takes_over(pools: PoolsProcesses) -> None:
    before = pools.record
    pools.start()
    first, second = pools.processes
    await until(lambda: has_vitals(pools.admin, second.pid), "a second supervisor")
    assert not await leads(pools.admin, second.pid)
    first.kill()
    first.wait()
    await until(lambda: leads(pools.admin, second.pid), "the second to lead")
    assert pools.record == before


async def has_vitals(client: Redis, pid: int) -> bool:
    return any(one.pid == pid for one in await vitals_of(client))


async def test_the_supervisor_tells_in_its_vitals_what_it_runs_on(pools: PoolsProcesses) -> None:
    (key,) = [key async for key in pools.admin.scan_iter(f"{wire.VITALS_PREFIX}*")]
    await until(lambda: leads(pools.admin, pools.processes[0].pid), "vitals of the leader")
    vitals = decode_vitals(await pools.admin.get(key))
    assert (vitals.role, vitals.applied.version) == (ProcessRole.POOLS, 1)
    assert vitals.directory_generation is not None


async def test_the_leader_tells_how_busy_its_worker_is_and_ships_its_log(
    pools: PoolsProcesses, tmp_path: Path
) -> None:
    (tmp_path / "mood.metrics").write_text("vllm:num_requests_running 4\n")
    await pools.admin.set(wire.worker_log_wish(WORKER), "1", ex=wire.WORKER_LOG_LIFE_S)
    await until(lambda: has_log(pools.admin), "its log, which somebody wishes for")
    await until(lambda: is_busy(pools.admin), "gauges")


async def has_log(client: Redis) -> bool:
    text = await client.hget(wire.worker_log_key(WORKER), wire.WORKER_LOG_TEXT)  # type: ignore[misc]
    return text is not None and b"a stand-in starts" in text


async def is_busy(client: Redis) -> bool:
    gauges = [one for vitals in await vitals_of(client) for one in vitals.workers]
    return any(
        (one.worker_id, one.running, one.waiting) == (WORKER, 4, None)
        and one.utilisation is not None
        and one.memory_bytes is not None
        for one in gauges
    )


async def test_a_changed_pool_restarts_its_worker(pools: PoolsProcesses, tmp_path: Path) -> None:
    have_nothing_to_do(tmp_path)
    before = pools.record
    await pools.want(replace(POOL, restart_generation=1))
    await until(
        lambda: {one.pid for one in records_of(pools.var)} - {before.pid} != set(), "a new engine"
    )
    await pools.wait_ready()
    assert presence_of(before) is Presence.GONE

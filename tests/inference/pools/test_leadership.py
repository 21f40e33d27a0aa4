"""Who leads, what the next one finds, and what is left to do without a store."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.fleet import Directory
from inference.contract.kinds import (
    Task,
    WorkerState,
)
from inference.decisions.lifecycle import Presence, Worker
from inference.fleet.directory import DirectoryWriter, directory_path, read_directory
from inference.fleet.lease import LEASE_S, Standing
from inference.pools.provisioners.fake import FakeProvisioner
from inference.pools.supervisor import REFRESH_S
from inference.store import STORE_TROUBLE
from tests.inference.pools.engines import DATA_KEY
from tests.inference.pools.rig import FAKE, READY_AFTER_S, Rig, all_in
from tests.inference.stores import OwnStore, until

pytestmark = pytest.mark.slow


async def test_a_follower_touches_nothing(serving: Rig, client: Redis, tmp_path: Path) -> None:
    other = Rig(client, directory_path(tmp_path / "other"), owner="b", clock=serving.clock)
    other.want(FAKE)
    await other.look()
    assert other.fake.starts == []
    assert (other.supervisor.is_leader, other.supervisor.directory_generation) == (False, None)


async def test_the_next_leader_goes_on_from_the_last_generation(
    serving: Rig, client: Redis
) -> None:
    before = await serving.directory()
    await serving.lease.release()
    heir = Rig(client, serving.path, owner="b", clock=serving.clock)
    heir.want(FAKE)
    await heir.look()
    directory = await heir.directory()
    assert directory.fencing_token > before.fencing_token
    assert directory.generation == 3
    await serving.look()
    assert serving.supervisor.is_leader is False
    assert await heir.directory() == directory


class Orphanage(FakeProvisioner):
    """A fake whose workers outlived their supervisor."""

    async def recover(self) -> tuple[Worker, ...]:
        orphans = []
        for spec in self.specs(FAKE, Task.GENERATE):
            base_url = await self.start(spec)
            orphans.append(
                Worker(
                    id=spec.id,
                    pool_id=spec.pool.id,
                    digest=spec.digest,
                    state=WorkerState.STARTING,
                    changed_at=0,
                    base_url=base_url,
                )
            )
        self.starts.clear()
        return tuple(orphans)


async def test_adopted_workers_that_served_go_on_serving_without_a_gap(
    serving: Rig, client: Redis
) -> None:
    await serving.lease.release()
    heir = Rig(client, serving.path, owner="b", clock=serving.clock, kind=Orphanage)
    heir.want(FAKE)
    before = await serving.directory()
    await heir.look()
    assert heir.fake.starts == []
    assert (await heir.directory()).workers == before.workers


async def test_adopted_workers_nobody_wants_any_more_are_drained(
    serving: Rig, client: Redis
) -> None:
    await serving.lease.release()
    heir = Rig(client, serving.path, owner="b", clock=serving.clock, kind=Orphanage)
    heir.want(replace(FAKE, replicas=1))
    await heir.look()
    assert await heir.states() == {
        "pool_a-0": WorkerState.READY,
        "pool_a-1": WorkerState.DRAINING,
    }


async def test_without_a_store_the_last_leader_restarts_its_own_and_starts_nothing_new(
    own_store: OwnStore, serving: Rig
) -> None:
    kept = content(serving.path)
    own_store.freeze()
    serving.fake.die("pool_a-0")
    serving.want(replace(FAKE, replicas=3))
    await serving.look(LEASE_S)
    assert serving.lease.standing is Standing.CARETAKER
    await serving.look(1)
    assert serving.fake.starts == ["pool_a-0", "pool_a-1", "pool_a-0"]
    assert content(serving.path) == kept
    serving.want(replace(FAKE, replicas=0))
    await serving.look(60)
    assert serving.fake.told == []
    own_store.thaw()
    serving.want(FAKE)
    await serving.look(READY_AFTER_S)
    await serving.look()
    assert serving.lease.standing is Standing.LEADER
    assert await serving.states() == all_in(WorkerState.READY)


async def test_a_store_that_comes_back_empty_has_the_directory_again(
    own_store: OwnStore, serving: Rig
) -> None:
    before = await serving.directory()
    own_store.restart()

    async def is_there() -> bool:
        await serving.look(REFRESH_S)
        try:
            return await read_directory(serving.client, data_key=DATA_KEY) is not None
        except STORE_TROUBLE:
            return False

    await until(is_there, "the directory")
    after = await serving.directory()
    assert (after.workers, after.generation) == (before.workers, before.generation + 1)
    assert after.fencing_token > before.fencing_token


async def test_run_leads_until_it_is_cancelled_and_then_frees_the_lease(
    client: Redis, tmp_path: Path
) -> None:
    rig = Rig(client, directory_path(tmp_path))
    rig.want(FAKE)
    followed = asyncio.Event()

    async def follow() -> None:
        followed.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(rig.supervisor.run(follow))
    await until(lambda: rig.supervisor.is_leader and followed.is_set(), "leadership")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await client.exists(wire.LEADER) == 0
    assert rig.fake.sight("pool_a-0").presence is Presence.RUNNING


async def test_a_background_task_that_breaks_ends_the_supervisor(rig: Rig) -> None:
    async def follow() -> None:
        raise RuntimeError("broken")

    with pytest.raises(ExceptionGroup):
        await rig.supervisor.run(follow)


async def test_a_token_on_disk_is_outbid_at_the_start(rig: Rig) -> None:
    writer = DirectoryWriter(rig.client, data_key=DATA_KEY, path=rig.path)
    await writer.write(Directory(4_000_000_000_000, 7, 0.0, ()))
    await rig.client.delete(wire.DIRECTORY)
    rig.want(FAKE)
    task = asyncio.create_task(rig.supervisor.run())
    await until(lambda: rig.supervisor.directory_generation == 8, "a directory")
    assert (await rig.directory()).fencing_token == 4_000_000_000_001
    task.cancel()
    await asyncio.wait([task])


def content(path: Path) -> bytes:
    return path.read_bytes()

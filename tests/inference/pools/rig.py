"""A supervisor on a real store, with workers and a clock that the test moves."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from inference.contract.codec import encode_vitals
from inference.contract.fleet import Directory
from inference.contract.kinds import ProcessRole, Provisioner, Task, WorkerState
from inference.contract.snapshot import ConfigSnapshot, ModelRecord, PoolRecord
from inference.contract.vitals import Applied, Vitals
from inference.contract.wire import vitals_key
from inference.fleet.directory import DirectoryWriter, read_directory
from inference.fleet.lease import LeaderLease
from inference.pools.hearing import hear
from inference.pools.provisioners.fake import FakeProvisioner
from inference.pools.supervisor import Supervisor
from inference.snapshots.holder import SnapshotHolder
from tests.inference.clocks import HandClock
from tests.inference.pools.engines import DATA_KEY, POOL

FAKE = replace(POOL, provisioner=Provisioner.FAKE, replicas=2)
READY_AFTER_S = 10.0
NEWER_THAN_ANY = 1_000_000
"""A generation of the directory."""


def snapshot_of(*pools: PoolRecord, version: int = 1) -> ConfigSnapshot:
    models = {"mdl_a": ModelRecord("mdl_a", "org_a", "smol", Task.GENERATE)}
    by_id = {pool.id: pool for pool in pools}
    return ConfigSnapshot("L1", version, {}, models, {}, by_id, {}, {})


@dataclass
class Rig:
    """A supervisor with everything around it. `look` makes it look once."""

    client: Redis
    path: Path
    owner: str = "a"
    clock: HandClock = field(default_factory=HandClock)
    kind: type[FakeProvisioner] = FakeProvisioner
    others: dict[Provisioner, FakeProvisioner] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holder = SnapshotHolder(DATA_KEY)
        self.fake = self.kind(clock=self.clock, ready_after_s=READY_AFTER_S)
        self.lease = LeaderLease(self.client, owner=self.owner, clock=self.clock)
        self.supervisor = Supervisor(
            holder=self.holder,
            lease=self.lease,
            writer=DirectoryWriter(self.client, data_key=DATA_KEY, path=self.path),
            provisioners={Provisioner.FAKE: self.fake, **self.others},
            hear=partial(hear, self.client),
            clock=self.clock,
        )

    def want(self, *pools: PoolRecord) -> None:
        version = self.holder.current.version + 1 if self.holder.current else 1
        self.holder.current = snapshot_of(*pools, version=version)

    async def look(self, after_s: float = 0) -> None:
        self.clock.move(after_s)
        await self.lease.step()
        await self.supervisor.tick()

    async def directory(self) -> Directory:
        directory = await read_directory(self.client, data_key=DATA_KEY)
        assert directory is not None
        return directory

    async def states(self) -> dict[str, WorkerState]:
        return {entry.id: entry.state for entry in (await self.directory()).workers}


async def say(rig: Rig, generation: int, inflight: int) -> None:
    """Have one gateway report what it knows and has running on the second worker."""
    vitals = Vitals(
        role=ProcessRole.GATEWAY,
        gateway="gw",
        process="gw-0",
        pid=1,
        started_at=0,
        written_at=0,
        applied=Applied(),
        directory_generation=generation,
        inflight={"pool_a-1": inflight},
    )
    await rig.client.set(vitals_key("gw-0"), encode_vitals(vitals))


def all_in(state: WorkerState, ordinals: Iterable[int] = (0, 1)) -> dict[str, WorkerState]:
    return {f"pool_a-{ordinal}": state for ordinal in ordinals}

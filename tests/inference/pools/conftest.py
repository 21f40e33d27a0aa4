"""A process provisioner on the stand-in, a supervisor of fakes, and nothing left after a test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import WorkerState
from inference.fleet.directory import directory_path
from inference.pools.provisioners.process import ProcessProvisioner
from tests.inference.pools.engines import StandinLine, end_all, host_for
from tests.inference.pools.rig import FAKE, NEWER_THAN_ANY, READY_AFTER_S, Rig, all_in, say


@pytest.fixture
def var(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose workers are ended after the test."""
    folder = tmp_path / "var"
    yield folder
    end_all(folder)


@pytest.fixture
def line(tmp_path: Path) -> StandinLine:
    return StandinLine(tmp_path / "mood")


@pytest.fixture
async def provisioner(var: Path, line: StandinLine) -> AsyncIterator[ProcessProvisioner]:
    made = ProcessProvisioner(host_for(var), start_line=line)
    yield made
    await made.close()


@pytest.fixture
def rig(client: Redis, tmp_path: Path) -> Rig:
    return Rig(client, directory_path(tmp_path))


@pytest.fixture
async def serving(rig: Rig) -> Rig:
    """A rig with two ready workers, and a gateway that knows at once who is to be left alone."""
    await say(rig, NEWER_THAN_ANY, inflight=0)
    rig.want(FAKE)
    await rig.look()
    await rig.look(READY_AFTER_S)
    assert await rig.states() == all_in(WorkerState.READY)
    return rig

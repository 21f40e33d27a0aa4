"""What every provisioner promises, real ones on real processes and sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from inference.contract.kinds import Backend, Provisioner, Task
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Presence
from inference.pools.base import PoolProvisioner
from inference.pools.provisioners.fake import FakeProvisioner
from inference.pools.provisioners.process import ProcessProvisioner
from inference.pools.provisioners.static import StaticProvisioner
from inference.pools.registry import REGISTRY, build_provisioners
from tests.inference.pools.engines import (
    POOL,
    StandinLine,
    end_all,
    host_for,
    seen_gone,
    seen_ready,
    started,
)
from tests.upstream.fixtures import Upstream

pytestmark = pytest.mark.slow


@dataclass
class Case:
    """A provisioner under test, a pool of two workers for it, and the same pool changed."""

    provisioner: PoolProvisioner
    pool: PoolRecord
    changed: PoolRecord


Make = Callable[[Path, Upstream], Case]


def make_process(folder: Path, upstream: Upstream) -> Case:
    line = StandinLine(folder / "mood")
    pool = replace(POOL, replicas=2)
    provisioner = ProcessProvisioner(host_for(folder / "var"), start_line=line)
    return Case(provisioner, pool, replace(pool, restart_generation=1))


def make_static(folder: Path, upstream: Upstream) -> Case:
    host = host_for(folder / "var")
    provisioner = StaticProvisioner(probes=host.probes, data_key=host.settings.data_key)
    addresses = (upstream.base_url, f"{upstream.base_url}/")
    pool = replace(POOL, provisioner=Provisioner.STATIC, backend=Backend.OPENAI)
    pool = replace(pool, addresses=addresses)
    return Case(provisioner, pool, replace(pool, addresses=addresses[::-1]))


def make_fake(folder: Path, upstream: Upstream) -> Case:
    clock = asyncio.get_running_loop().time
    pool = replace(POOL, provisioner=Provisioner.FAKE, replicas=2)
    provisioner = FakeProvisioner(clock=clock, ready_after_s=0.05)
    return Case(provisioner, pool, replace(pool, restart_generation=1))


CASES: Mapping[Provisioner, Make] = {
    Provisioner.PROCESS: make_process,
    Provisioner.STATIC: make_static,
    Provisioner.FAKE: make_fake,
}


@pytest.fixture(params=list(Provisioner))
async def case(
    request: pytest.FixtureRequest, tmp_path: Path, upstream: Upstream
) -> AsyncIterator[Case]:
    made = CASES[request.param](tmp_path, upstream)
    yield made
    await made.provisioner.close()
    end_all(tmp_path / "var")


async def test_every_kind_can_be_built_for_a_host(tmp_path: Path) -> None:
    assert set(build_provisioners(host_for(tmp_path))) == set(Provisioner) == set(REGISTRY)


async def test_workers_are_named_by_pool_and_ordinal(case: Case) -> None:
    specs = case.provisioner.specs(case.pool, Task.GENERATE)
    assert [(spec.id, spec.ordinal) for spec in specs] == [("pool_a-0", 0), ("pool_a-1", 1)]
    assert case.provisioner.specs(case.pool, Task.GENERATE) == specs


async def test_what_a_worker_runs_on_is_in_its_digest(case: Case) -> None:
    before, after = (
        case.provisioner.specs(pool, Task.GENERATE)[0].digest for pool in (case.pool, case.changed)
    )
    assert before != after


async def test_an_unknown_worker_is_gone_and_may_be_ended(case: Case) -> None:
    assert case.provisioner.sight("pool_x-0").presence is Presence.GONE
    case.provisioner.terminate("pool_x-0")
    case.provisioner.kill("pool_x-0")
    case.provisioner.forget("pool_x-0")


async def test_a_started_worker_gets_ready_where_it_said_it_would_be(case: Case) -> None:
    spec = case.provisioner.specs(case.pool, Task.GENERATE)[0]
    base_url = await case.provisioner.start(spec)
    assert base_url.startswith("http://127.0.0.1:")
    sighting = await seen_ready(case.provisioner, spec.id)
    assert sighting.presence is Presence.RUNNING
    assert sighting.failed_probes == 0


async def test_two_workers_of_a_pool_live_side_by_side(case: Case) -> None:
    specs = case.provisioner.specs(case.pool, Task.GENERATE)
    addresses = {await case.provisioner.start(spec) for spec in specs}
    assert len(addresses) == 2
    for spec in specs:
        await seen_ready(case.provisioner, spec.id)


@pytest.mark.parametrize("how", ["terminate", "kill"])
async def test_an_ended_worker_is_gone_and_can_be_started_again(case: Case, how: str) -> None:
    spec = await started(case.provisioner, case.pool)
    getattr(case.provisioner, how)(spec.id)
    await seen_gone(case.provisioner, spec.id)
    await started(case.provisioner, case.pool)


async def test_a_forgotten_worker_is_gone(case: Case) -> None:
    spec = await started(case.provisioner, case.pool)
    case.provisioner.kill(spec.id)
    await seen_gone(case.provisioner, spec.id)
    case.provisioner.forget(spec.id)
    assert case.provisioner.sight(spec.id).presence is Presence.GONE


async def test_without_workers_there_is_nothing_to_recover(case: Case) -> None:
    assert await case.provisioner.recover() == ()

"""Workers are measured beside the supervisor: a real child process, asked and looked at."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import Backend, Provisioner
from inference.contract.vitals import WorkerGauges
from inference.fleet.directory import directory_path
from inference.pools.base import Measurable, Source, metrics_call
from inference.pools.gauges import FRESH_S, SILENT_S, Gauges
from inference.pools.gpus import Gpus
from inference.pools.host_use import HostUse
from inference.pools.probes import ProbeAnswer, ProbeCall, ProbeClient, ProbeFailed
from inference.pools.provisioners.fake import FakeProvisioner
from inference.pools.provisioners.process import ProcessProvisioner
from inference.pools.provisioners.static import StaticProvisioner
from tests.inference.clocks import HandClock
from tests.inference.ledger import running
from tests.inference.pools.engines import DATA_KEY, POOL, StandinLine, host_for, started
from tests.inference.pools.nvml import Library
from tests.inference.pools.rig import READY_AFTER_S, Rig
from tests.inference.stores import until

pytestmark = pytest.mark.slow

NO_GPUS = Gpus(Library({}, {}))
METRICS = b"""vllm:num_requests_running 3
vllm:num_requests_waiting 1
vllm:kv_cache_usage_perc 0.5
"""


class ScriptedClient(ProbeClient):
    """Answers every call with what it is told, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: ProbeAnswer | None = ProbeAnswer(200, METRICS)
        self.hold = asyncio.Event()
        self.hold.set()
        self.calls = 0

    async def fetch(self, call: ProbeCall) -> ProbeAnswer:
        self.calls += 1
        await self.hold.wait()
        if self.answer is None:
            raise ProbeFailed("no answer")
        return self.answer


@dataclass
class Bench:
    """Gauges of one worker that is only an address, with clocks that the test moves."""

    client: ScriptedClient = field(default_factory=ScriptedClient)
    stopwatch: HandClock = field(default_factory=lambda: HandClock(50.0))
    clock: HandClock = field(default_factory=HandClock)
    source: Source = field(default_factory=lambda: Source(metrics_call("http://127.0.0.1:9/m")))
    is_leading: bool = True
    looks: int = 0

    def __post_init__(self) -> None:
        self.gauges = Gauges(
            workers=self.workers,
            probes=self.client,
            host=HostUse(stopwatch=self.stopwatch),
            gpus=NO_GPUS,
            clock=self.clock,
            stopwatch=self.stopwatch,
        )

    def workers(self) -> tuple[Measurable, ...]:
        self.looks += 1
        return (Measurable("pool_a-0", "pool_a", self.source),) if self.is_leading else ()

    @property
    def now(self) -> WorkerGauges:
        (gauges,) = self.gauges.current()
        return gauges

    def move(self, seconds: float) -> None:
        self.stopwatch.move(seconds)
        self.clock.move(seconds)

    async def rounds(self, number: int = 3) -> None:
        """Let it measure so many times."""
        wanted = self.looks + number
        await until(lambda: self.looks >= wanted, "rounds")

    async def asked(self) -> None:
        """Wait for another call to the server."""
        before = self.client.calls
        await until(lambda: self.client.calls > before, "a call")


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A bench that measures every few milliseconds."""
    monkeypatch.setattr("inference.pools.gauges.GAUGES_PERIOD_S", 0.005)
    made = Bench()
    async with running(made.gauges):
        yield made


async def test_what_a_server_says_is_told_with_the_time_of_the_question(bench: Bench) -> None:
    await until(lambda: bench.now.running is not None, "an answer")
    bench.client.hold.clear()
    await bench.asked()
    bench.move(2.0)
    assert bench.now == WorkerGauges(
        worker_id="pool_a-0",
        pool_id="pool_a",
        at=bench.clock.now - 2.0,
        running=3,
        waiting=1,
        kv_used=0.5,
    )


async def test_a_server_that_stops_answering_is_not_known_any_more(bench: Bench) -> None:
    await until(lambda: bench.now.running == 3, "an answer")
    bench.client.answer = None
    await bench.rounds()
    bench.move(FRESH_S + 0.1)
    await bench.rounds()
    assert bench.now == WorkerGauges(worker_id="pool_a-0", pool_id="pool_a", at=bench.clock.now)


async def test_a_server_that_is_slow_is_asked_once_at_a_time(bench: Bench) -> None:
    bench.client.hold.clear()
    await bench.asked()
    calls = bench.client.calls
    await bench.rounds()
    assert bench.client.calls == calls
    bench.client.hold.set()
    await until(lambda: bench.now.running == 3, "an answer")


async def test_a_worker_started_anew_is_not_shown_with_the_old_ones_values(bench: Bench) -> None:
    await until(lambda: bench.now.running == 3, "an answer")
    bench.client.hold.clear()
    bench.source = Source(metrics_call("http://127.0.0.1:10/m"))
    assert bench.now.running is None
    bench.client.hold.set()
    await until(lambda: bench.now.running == 3, "an answer of the new one")


@pytest.mark.parametrize("answer", [ProbeAnswer(404, METRICS), ProbeAnswer(200, b"none of it")])
async def test_a_server_without_these_metrics_is_left_alone_for_a_while(
    bench: Bench, answer: ProbeAnswer
) -> None:
    bench.client.answer = answer
    await bench.asked()
    await bench.rounds()
    calls = bench.client.calls
    await bench.rounds()
    assert bench.client.calls == calls
    assert bench.now.running is None
    bench.client.answer = ProbeAnswer(200, METRICS)
    bench.move(SILENT_S)
    await until(lambda: bench.now.running == 3, "another try")


async def test_who_does_not_lead_measures_nothing(bench: Bench) -> None:
    await until(lambda: bench.now.running == 3, "an answer")
    bench.is_leading = False
    assert bench.gauges.current() == ()


@asynccontextmanager
async def measuring(
    provisioner: ProcessProvisioner, var: Path, gpus: Gpus = NO_GPUS
) -> AsyncIterator[Gauges]:
    """Gauges of a real worker on real clocks."""
    source = provisioner.source_of("pool_a-0")
    assert source is not None
    gauges = Gauges(
        workers=lambda: (Measurable("pool_a-0", "pool_a", source),),
        probes=host_for(var).probes,
        host=HostUse(stopwatch=time.monotonic),
        gpus=gpus,
        clock=time.time,
        stopwatch=time.monotonic,
    )
    async with running(gauges):
        yield gauges


async def test_a_real_worker_is_measured_by_its_server_and_its_group(
    provisioner: ProcessProvisioner,
    line: StandinLine,
    var: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.pools.gauges.GAUGES_PERIOD_S", 0.02)
    line.load(running=2, waiting=1, kv_used=0.25)
    await started(provisioner)
    async with measuring(provisioner, var) as gauges:
        await until(lambda: gauges.current()[0].running == 2, "the load")
        await until(lambda: gauges.current()[0].utilisation is not None, "CPU")
        (now,) = gauges.current()
        assert (now.waiting, now.kv_used, now.is_gpu) == (1, 0.25, False)
        assert now.memory_bytes is not None
        assert 4 << 20 < now.memory_bytes < 1 << 30
        assert 0 <= time.time() - now.at < 30
        line.load(running=5, waiting=0, kv_used=0.5)
        await until(lambda: gauges.current()[0].running == 5, "the next load")


async def test_a_worker_on_gpus_is_measured_by_these(
    provisioner: ProcessProvisioner, var: Path
) -> None:
    await started(provisioner)
    source = provisioner.source_of("pool_a-0")
    assert source is not None
    assert source.group is not None
    gpus = Gpus(Library({0: {source.group.pid: 9 << 30}}, {0: 70}))
    async with measuring(provisioner, var, gpus) as gauges:
        await until(lambda: gauges.current()[0].is_gpu, "a look")
        (now,) = gauges.current()
    assert (now.utilisation, now.memory_bytes) == (70.0, 9 << 30)


async def test_a_worker_that_is_gone_has_no_source(provisioner: ProcessProvisioner) -> None:
    await started(provisioner)
    provisioner.kill("pool_a-0")
    provisioner.forget("pool_a-0")
    assert provisioner.source_of("pool_a-0") is None


async def test_only_addresses_that_run_vllm_are_asked(tmp_path: Path) -> None:
    static = StaticProvisioner(probes=host_for(tmp_path).probes, data_key=DATA_KEY)
    pool = replace(POOL, provisioner=Provisioner.STATIC, addresses=("http://127.0.0.1:9/v1",))
    await started(static, pool)
    source = static.source_of("pool_a-0")
    assert source is not None
    assert source.group is None
    assert source.metrics is not None
    assert source.metrics.url == "http://127.0.0.1:9/metrics"
    static.forget("pool_a-0")
    assert static.source_of("pool_a-0") is None
    await started(static, replace(pool, backend=Backend.OPENAI))
    assert static.source_of("pool_a-0") is None
    await static.close()


async def test_the_supervisor_has_its_ready_workers_measured_while_it_leads(
    rig: Rig, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(metrics_call("http://127.0.0.1:9/metrics"))
    monkeypatch.setattr(rig.fake, "source_of", lambda worker_id: source)
    rig.want(FAKE_POOL)
    await rig.look()
    assert rig.supervisor.measurable() == ()
    await rig.look(READY_AFTER_S)
    assert rig.supervisor.measurable() == (
        Measurable("pool_a-0", "pool_a", source),
        Measurable("pool_a-1", "pool_a", source),
    )
    await rig.lease.release()
    assert rig.supervisor.measurable() == ()


class Watching(FakeProvisioner):
    """Somebody else's workers, at the very addresses of ours."""

    owns_processes = False


async def test_a_worker_of_ours_that_a_static_pool_names_too_is_measured_once(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    watching = Watching(clock=clock, ready_after_s=0)
    rig = Rig(client, directory_path(tmp_path), clock=clock, others={Provisioner.STATIC: watching})
    source = Source(metrics_call("http://127.0.0.1:9/metrics"))
    monkeypatch.setattr(FakeProvisioner, "source_of", lambda self, worker_id: source)
    named = replace(POOL, id="pool_b", provisioner=Provisioner.STATIC, replicas=3)
    rig.want(FAKE_POOL, named)
    await rig.look()
    await rig.look(READY_AFTER_S)
    measured = [one.worker_id for one in rig.supervisor.measurable()]
    assert measured == ["pool_a-0", "pool_a-1", "pool_b-2"]


FAKE_POOL = replace(POOL, provisioner=Provisioner.FAKE, replicas=2)

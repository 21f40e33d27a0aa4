"""What tests of process pools share: a start line for the stand-in, hosts, and clearing up."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inference.contract.kinds import Backend, Provisioner, Task
from inference.contract.sealing import content_digest
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Presence, Sighting, WorkerSpec
from inference.pools.base import Host, PoolProvisioner
from inference.pools.groups import GroupRecord, GroupRecords, kill_group, presence_of
from inference.pools.probes import ProbeClient
from inference.settings import Settings
from tests.inference.stores import until

STANDIN = Path(__file__).with_name("standin.py")
DATA_KEY = bytes(range(32))

POOL = PoolRecord(
    id="pool_a",
    organisation_id="org_a",
    name="smol",
    model_id="mdl_a",
    provisioner=Provisioner.PROCESS,
    backend=Backend.VLLM,
    served_model_name="smol",
    model_source="smollm2-135m-instruct",
)


def settings_for(var: Path, **fields: object) -> Settings:
    """Settings of a host under test; its folder and nothing else matters to most."""
    plain = Settings(
        var=var,
        state_url="unix:///nowhere",
        data_key=DATA_KEY,
        peppers={},
        gateway_id="test",
        gateway_host="127.0.0.1",
        gateway_port=1,
        gateway_admin_port=2,
        gateway_processes=1,
        gateway_is_hot=True,
        body_limit_bytes=1,
        engine_python=None,
        models_folder=None,
        own_ports=frozenset(),
        allow_remote_code=False,
        allow_fake_workers=False,
        log_level="info",
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


RECEIVERS_SECRET = "canary-of-the-receiver"


def host_for(var: Path, *, clock: Callable[[], float] = time.time, **fields: object) -> Host:
    """A host under test, with the environment of a supervisor that holds secrets."""
    settings = settings_for(var, **fields)
    environ = {
        "PATH": os.environ["PATH"],
        "HEADWORKS_DATA_KEY": "secret",
        "HEADWORKS_OTLP_HEADERS": f"x-key={RECEIVERS_SECRET}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={RECEIVERS_SECRET}",
    }
    return Host(settings, environ, clock, ProbeClient(own_ports=settings.own_ports))


@dataclass
class StandinLine:
    """Starts the stand-in instead of an engine; `mood` steers those it started."""

    mood: Path

    def refusal(self, pool: PoolRecord) -> str | None:
        return None

    def digest(self, pool: PoolRecord, task: Task) -> str:
        words = f"{pool.served_model_name}/{pool.restart_generation}/{task}"
        return content_digest(words.encode())

    def command(self, pool: PoolRecord, task: Task, port: int) -> tuple[str, ...]:
        options = ("--port", str(port), "--served-model-name", pool.served_model_name)
        return (sys.executable, str(STANDIN), *options, "--mood", str(self.mood))

    def feel(self, mood: str) -> None:
        """Put all of them, those to come too, into a mood."""
        self.mood.write_text(mood)

    def load(self, running: int, waiting: int, kv_used: float) -> None:
        """Have all of them say how busy they are."""
        labels = '{engine="0",model_name="smol"}'
        lines = (
            f"vllm:num_requests_running{labels} {running:.1f}",
            f"vllm:num_requests_waiting{labels} {waiting:.1f}",
            f"vllm:kv_cache_usage_perc{labels} {kv_used}",
        )
        fresh = self.mood.with_suffix(".metrics-next")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self.mood.with_suffix(".metrics"))

    def calls(self) -> list[str]:
        """The paths of all requests that were posted so far."""
        calls = self.mood.with_suffix(".calls")
        return calls.read_text().split() if calls.exists() else []


def records_of(var: Path) -> tuple[GroupRecord, ...]:
    return GroupRecords(var / "run" / "groups").read()


def end_all(var: Path) -> None:
    """Kill and reap every worker on record: what a guardian does at the end."""
    for record in records_of(var):
        kill_group(record)
        deadline = time.monotonic() + 10
        while presence_of(record) is not Presence.GONE:
            assert time.monotonic() < deadline, record
            time.sleep(0.01)
        reap(record.pid)


def reap(pid: int) -> None:
    """Take a child's exit status, if it is ours and nobody has."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return


async def seen(
    provisioner: PoolProvisioner, worker_id: str, condition: Callable[[Sighting], bool], what: str
) -> Sighting:
    """Wait until a worker is seen as wanted, and return what was seen."""
    await until(lambda: condition(provisioner.sight(worker_id)), what)
    return provisioner.sight(worker_id)


async def seen_ready(provisioner: PoolProvisioner, worker_id: str) -> Sighting:
    return await seen(provisioner, worker_id, lambda one: one.is_ready, "a ready worker")


async def seen_gone(provisioner: PoolProvisioner, worker_id: str) -> Sighting:
    return await seen(
        provisioner, worker_id, lambda one: one.presence is Presence.GONE, "nothing left of it"
    )


async def started(provisioner: PoolProvisioner, pool: PoolRecord = POOL) -> WorkerSpec:
    """Start a pool's first worker and wait until it is ready."""
    spec = provisioner.specs(pool, Task.GENERATE)[0]
    await provisioner.start(spec)
    await seen_ready(provisioner, spec.id)
    return spec


async def nothing_happens_for(turns: int) -> None:
    """Let the loop turn, so that what is due to happen has happened."""
    for _ in range(turns):
        await asyncio.sleep(0)

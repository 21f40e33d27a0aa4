"""Real process groups: recorded, watched, ended whole, and found again."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inference.contract.kinds import Task, WorkerState
from inference.contract.sealing import worker_key
from inference.decisions.engine import START_MARK
from inference.decisions.lifecycle import Presence
from inference.pools.base import StartRefused
from inference.pools.groups import GroupRecords, GroupStart, members_of, presence_of, spawn_gated
from inference.pools.provisioners.process import ProcessProvisioner
from tests.inference.pools.engines import (
    DATA_KEY,
    POOL,
    RECEIVERS_SECRET,
    StandinLine,
    host_for,
    reap,
    records_of,
    seen,
    seen_gone,
    seen_ready,
    started,
)
from tests.inference.stores import until

pytestmark = pytest.mark.slow


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def blocked_logs(var: Path) -> Path:
    """A file where the folder of logs should be."""
    var.mkdir()
    (var / "logs").touch()
    return var / "logs"


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


async def test_a_worker_is_on_record_as_leader_of_its_own_group(
    provisioner: ProcessProvisioner, var: Path
) -> None:
    spec = await started(provisioner)
    (record,) = records_of(var)
    assert (record.name, record.kind) == ("worker-pool_a-0", "worker")
    assert (record.worker_id, record.pool_id, record.spec_digest) == (
        "pool_a-0",
        "pool_a",
        spec.digest,
    )
    assert os.getsid(record.pid) == os.getpgid(record.pid) == record.pid
    assert presence_of(record) is Presence.RUNNING
    await until(lambda: len(members_of(record.pid)) == 2, "its child in the same group")
    path = var / "run" / "groups" / "worker-pool_a-0.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert set(json.loads(read(path))) >= {"name", "pid", "start_time", "spec_digest", "kind"}


async def test_its_key_is_in_its_environment_and_not_on_its_command_line(
    provisioner: ProcessProvisioner, var: Path, line: StandinLine
) -> None:
    await started(provisioner)
    key = worker_key(DATA_KEY, "pool_a-0")
    (record,) = records_of(var)
    environment = json.loads(read(line.mood.with_suffix(".environment")))
    assert environment["VLLM_API_KEY"] == key
    assert "HEADWORKS_DATA_KEY" not in environment
    assert key not in read(Path(f"/proc/{record.pid}/cmdline"))


def files_in(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]


def holders_of(secret: str, files: list[Path]) -> list[Path]:
    """Those of these files that hold it."""
    return [one for one in files if secret.encode() in one.read_bytes()]


async def test_what_the_receiver_of_spans_wants_reaches_no_engine_and_no_log(
    provisioner: ProcessProvisioner, var: Path, line: StandinLine
) -> None:
    spec = await started(provisioner)
    await seen_ready(provisioner, spec.id)
    (record,) = records_of(var)
    await until(lambda: len(members_of(record.pid)) == 2, "its child in the same group")
    places = [Path(f"/proc/{pid}") for pid in members_of(record.pid)]
    told = [place / file for place in places for file in ("environ", "cmdline")]
    assert holders_of(RECEIVERS_SECRET, [*told, *files_in(var)]) == []
    assert holders_of(worker_key(DATA_KEY, "pool_a-0"), told) != []
    assert var / "logs" / "workers" / "pool_a-0.log" in files_in(var)
    environment = json.loads(read(line.mood.with_suffix(".environment")))
    assert not any(name.endswith("OTLP_HEADERS") for name in environment)


async def test_readiness_is_one_real_completion(
    provisioner: ProcessProvisioner, line: StandinLine
) -> None:
    line.feel("mute")
    spec = provisioner.specs(POOL, Task.GENERATE)[0]
    await provisioner.start(spec)
    sighting = await seen(provisioner, spec.id, lambda one: is_mute(one.detail), "a refusal")
    assert sighting.is_ready is False
    line.feel("")
    await seen_ready(provisioner, spec.id)
    assert set(line.calls()) == {"/v1/chat/completions"}


def is_mute(detail: str | None) -> bool:
    return detail == "its first request is answered with 500"


async def test_an_embedding_engine_proves_itself_with_an_embedding(
    provisioner: ProcessProvisioner, line: StandinLine
) -> None:
    spec = provisioner.specs(POOL, Task.EMBED)[0]
    await provisioner.start(spec)
    await seen_ready(provisioner, spec.id)
    assert line.calls() == ["/v1/embeddings"]


async def test_a_ready_engine_that_turns_sick_is_seen_failing(
    provisioner: ProcessProvisioner, line: StandinLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.pools.provisioners.process.READY_PROBE_S", 0.01)
    await started(provisioner)
    line.feel("sick")
    sighting = await seen(
        provisioner, "pool_a-0", lambda one: one.failed_probes >= 3, "three failed probes"
    )
    assert sighting.detail == "its health check is answered with 503"
    line.feel("")
    await seen(provisioner, "pool_a-0", lambda one: one.failed_probes == 0, "a good probe")


async def test_what_a_killed_leader_leaves_is_seen_and_can_be_killed(
    provisioner: ProcessProvisioner, var: Path
) -> None:
    await started(provisioner)
    (record,) = records_of(var)
    await until(lambda: len(members_of(record.pid)) == 2, "its child")
    os.kill(record.pid, signal.SIGKILL)
    sighting = await seen(
        provisioner,
        "pool_a-0",
        lambda one: one.presence is Presence.LEADERLESS,
        "a group without a leader",
    )
    assert sighting.detail == "the engine ended by SIGKILL"
    assert len(members_of(record.pid)) == 1
    provisioner.kill("pool_a-0")
    await seen_gone(provisioner, "pool_a-0")
    assert members_of(record.pid) == ()


async def test_sigterm_goes_to_the_leader_alone_and_sigkill_to_all(
    provisioner: ProcessProvisioner, line: StandinLine, var: Path
) -> None:
    line.feel("deaf")
    await started(provisioner)
    (record,) = records_of(var)
    await until(lambda: len(members_of(record.pid)) == 2, "its child")
    provisioner.terminate("pool_a-0")
    provisioner.terminate("pool_a-0")
    assert len(members_of(record.pid)) == 2
    provisioner.kill("pool_a-0")
    await seen_gone(provisioner, "pool_a-0")
    assert members_of(record.pid) == ()


async def test_an_engine_that_breaks_at_its_start_says_why(
    provisioner: ProcessProvisioner, line: StandinLine, var: Path
) -> None:
    line.feel("broken")
    spec = provisioner.specs(POOL, Task.GENERATE)[0]
    await provisioner.start(spec)
    sighting = await seen_gone(provisioner, spec.id)
    assert sighting.detail == "the engine ended with code 1: ValueError: no memory for the cache"
    log = var / "logs" / "workers" / "pool_a-0.log"
    assert read(log).splitlines()[:2] == [START_MARK, "a stand-in starts"]
    assert stat.S_IMODE(os.stat(log).st_mode) == 0o600


async def test_a_forgotten_worker_leaves_no_record(
    provisioner: ProcessProvisioner, var: Path
) -> None:
    await started(provisioner)
    provisioner.kill("pool_a-0")
    await seen_gone(provisioner, "pool_a-0")
    provisioner.forget("pool_a-0")
    assert records_of(var) == ()


async def test_a_restarted_worker_keeps_its_port(provisioner: ProcessProvisioner) -> None:
    spec = provisioner.specs(POOL, Task.GENERATE)[0]
    first = await provisioner.start(spec)
    provisioner.kill(spec.id)
    await seen_gone(provisioner, spec.id)
    assert await provisioner.start(spec) == first


async def test_a_taken_port_is_named(provisioner: ProcessProvisioner, taken_port: int) -> None:
    spec = provisioner.specs(replace(POOL, port_base=taken_port), Task.GENERATE)[0]
    with pytest.raises(StartRefused, match=f"^port {taken_port} is taken on 127.0.0.1$") as refusal:
        await provisioner.start(spec)
    assert refusal.value.base_url == f"http://127.0.0.1:{taken_port}/v1"


async def test_a_port_of_this_installation_is_never_used(var: Path, line: StandinLine) -> None:
    host = host_for(var, own_ports=frozenset({8400}))
    own = ProcessProvisioner(host, start_line=line)
    spec = own.specs(replace(POOL, port_base=8399, replicas=2), Task.GENERATE)[1]
    with pytest.raises(StartRefused, match=r"^port 8400 belongs to this installation$"):
        await own.start(spec)


async def test_a_start_that_the_host_cannot_make_is_refused(
    provisioner: ProcessProvisioner, blocked_logs: Path
) -> None:
    spec = provisioner.specs(POOL, Task.GENERATE)[0]
    with pytest.raises(StartRefused, match=r"^it cannot be started: Not a directory$"):
        await provisioner.start(spec)


async def test_a_new_supervisor_finds_a_running_worker_and_watches_it(
    provisioner: ProcessProvisioner, var: Path, line: StandinLine
) -> None:
    spec = await started(provisioner)
    (record,) = records_of(var)
    await provisioner.close()
    heir = ProcessProvisioner(host_for(var), start_line=line)
    (found,) = await heir.recover()
    assert (found.id, found.pool_id, found.digest) == ("pool_a-0", "pool_a", spec.digest)
    assert (found.state, found.base_url) == (
        WorkerState.STARTING,
        f"http://127.0.0.1:{record.port}/v1",
    )
    await seen_ready(heir, "pool_a-0")
    assert records_of(var) == (record,)
    heir.kill("pool_a-0")
    await seen_gone(heir, "pool_a-0")
    await heir.close()


async def test_a_new_supervisor_ends_what_a_dead_leader_left_and_clears_its_record(
    provisioner: ProcessProvisioner, var: Path, line: StandinLine
) -> None:
    await started(provisioner)
    (record,) = records_of(var)
    await until(lambda: len(members_of(record.pid)) == 2, "its child")
    await provisioner.close()
    os.kill(record.pid, signal.SIGKILL)
    await until(lambda: presence_of(record) is Presence.LEADERLESS, "a dead leader")
    heir = ProcessProvisioner(host_for(var), start_line=line)
    assert await heir.recover() == ()
    assert members_of(record.pid) == ()
    assert records_of(var) == ()
    await heir.close()
    reap(record.pid)


async def test_a_record_whose_pid_is_somebody_elses_now_harms_nobody(
    provisioner: ProcessProvisioner, var: Path, bystander: subprocess.Popen[bytes]
) -> None:
    await started(provisioner)
    (record,) = records_of(var)
    named = replace(record, name="worker-pool_b-0", worker_id="pool_b-0")
    stale = replace(named, pid=bystander.pid, start_time=record.start_time - 1_000)
    GroupRecords(var / "run" / "groups").write(stale)
    found = await provisioner.recover()
    assert [worker.id for worker in found] == ["pool_a-0"]
    assert records_of(var) == (record,)
    assert bystander.poll() is None


async def test_records_of_others_and_torn_ones_are_left_alone(
    provisioner: ProcessProvisioner, var: Path
) -> None:
    groups = var / "run" / "groups"
    groups.mkdir(parents=True)
    for name, text in (("gateway", "{}"), ("worker-x", "{"), ("worker-y", '{"name": "y"}')):
        write(groups / f"{name}.json", text)
    assert await provisioner.recover() == ()
    assert sorted(path.stem for path in groups.iterdir()) == ["gateway", "worker-x", "worker-y"]


def test_a_process_whose_record_was_not_written_has_run_nothing(tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    start = GroupStart(
        command=("/bin/sh", "-c", f"touch {proof}"),
        environment={"PATH": os.environ["PATH"]},
        folder=tmp_path,
        log=tmp_path / "log",
    )
    spawn_gated(start).discard()
    assert not proof.exists()
    opened = spawn_gated(start)
    opened.open()
    os.waitpid(opened.pid, 0)
    assert proof.exists()


def read(path: Path) -> str:
    return path.read_text()


def write(path: Path, text: str) -> None:
    path.write_text(text)

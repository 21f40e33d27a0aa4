"""Engines as processes of this host: one vLLM server a worker, each in a group of its own."""

import asyncio
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference.contract.kinds import Task, WorkerState
from inference.contract.sealing import worker_key
from inference.contract.snapshot import PoolRecord
from inference.decisions.engine import engine_environment, reason_in
from inference.decisions.lifecycle import Presence, Sighting, Worker, WorkerSpec, make_spec
from inference.pools.base import Host, Source, StartRefused, metrics_call
from inference.pools.groups import (
    WORKER_KIND,
    GatedProcess,
    GroupRecord,
    GroupRecords,
    GroupStart,
    ending_of,
    kill_group,
    presence_of,
    spawn_gated,
    start_time_of,
    terminate_leader,
)
from inference.pools.probes import ProbeCall, ProbeFailed, Prober
from inference.pools.start_line import StartLine, VllmStartLine, is_cpu_build
from inference.pools.worker_logs import log_path, mark_start, rotate_if_large, tail_of

LOOPBACK = "127.0.0.1"

HEALTH_TIMEOUT_S = 5.0
"""A busy engine's server still answers; three of these in a row are an outage."""

PROOF_TIMEOUT_S = 60.0
"""The first token of a cold engine on a slow machine."""

STARTING_PROBE_S = 0.5
READY_PROBE_S = 2.0
LOG_CHECK_S = 10.0
SWEEP_POLL_S = 0.02
SWEEP_POLLS = 250

_HEALTHY = 200


@dataclass(slots=True)
class _Engine:
    """One engine and what watches it. `obituary` says how it ended, once it has."""

    record: GroupRecord
    prober: Prober
    obituary: str | None = None


class ProcessProvisioner:
    """Starts engines, watches them, and ends whole groups: what a dead server leaves is 2 GB."""

    owns_processes = True
    uses_derived_key = True

    def __init__(self, host: Host, *, start_line: StartLine) -> None:
        var = host.settings.var
        self._host = host
        self._line = start_line
        self._records = GroupRecords(var / "run" / "groups")
        self._folder = var / "run" / "engines"
        self._logs = var / "logs" / "workers"
        self._engines: dict[str, _Engine] = {}
        self._ports: dict[str, int] = {}
        self._log_keeper: asyncio.Task[None] | None = None

    def specs(self, pool: PoolRecord, task: Task) -> tuple[WorkerSpec, ...]:
        digest = self._line.digest(pool, task)
        return tuple(
            make_spec(pool, ordinal, task=task, digest=digest) for ordinal in range(pool.replicas)
        )

    async def recover(self) -> tuple[Worker, ...]:
        self._log_keeper = self._log_keeper or asyncio.create_task(self._keep_logs())
        found = []
        for record in self._records.read():
            if presence_of(record) is Presence.RUNNING:
                self._watch(record)
                found.append(_worker_of(record))
            else:
                await self._sweep(record)
        return tuple(found)

    async def start(self, spec: WorkerSpec) -> str:
        port = self._port_for(spec)
        base_url = _base_url(port)
        why = self._line.refusal(spec.pool) or self._port_trouble(port)
        if why is not None:
            raise StartRefused(why, base_url=base_url)
        try:
            record = self._launch(spec, port)
        except OSError as error:
            why = f"it cannot be started: {error.strerror}"
            raise StartRefused(why, base_url=base_url) from error
        self._watch(record)
        return base_url

    def sight(self, worker_id: str) -> Sighting:
        engine = self._engines.get(worker_id)
        if engine is None:
            return Sighting(Presence.GONE)
        presence = presence_of(engine.record)
        if presence is not Presence.RUNNING and engine.obituary is None:
            ending = ending_of(engine.record.pid)
            if ending is None:
                return engine.prober.sighting(Presence.RUNNING)
            engine.prober.stop()
            engine.obituary = self._obituary(worker_id, ending.code)
        return engine.prober.sighting(presence, engine.obituary)

    def terminate(self, worker_id: str) -> None:
        engine = self._engines.get(worker_id)
        if engine is not None:
            terminate_leader(engine.record)

    def kill(self, worker_id: str) -> None:
        engine = self._engines.get(worker_id)
        if engine is not None:
            kill_group(engine.record)

    def forget(self, worker_id: str) -> None:
        engine = self._engines.pop(worker_id, None)
        self._ports.pop(worker_id, None)
        if engine is not None:
            engine.prober.stop()
            self._records.remove(engine.record)

    def source_of(self, worker_id: str) -> Source | None:
        engine = self._engines.get(worker_id)
        if engine is None:
            return None
        record = engine.record
        return Source(metrics_call(f"http://{LOOPBACK}:{record.port}/metrics"), record)

    def log_of(self, worker_id: str) -> Path | None:
        return log_path(self._logs, worker_id)

    async def close(self) -> None:
        engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            await engine.prober.closed()
        if self._log_keeper is not None:
            self._log_keeper.cancel()
            await asyncio.wait([self._log_keeper])
            self._log_keeper = None

    def _launch(self, spec: WorkerSpec, port: int) -> GroupRecord:
        log = log_path(self._logs, spec.id)
        for folder in (self._folder, self._logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = worker_key(self._host.settings.data_key, spec.id)
        start = GroupStart(
            command=self._line.command(spec.pool, spec.task, port),
            environment=engine_environment(
                self._host.environ,
                api_key=key,
                is_eager=spec.pool.engine_arguments.get("enforce_eager") is True,
                cpu_cores=self._cpu_cores(),
            ),
            folder=self._folder,
            log=log,
        )
        mark_start(log)
        process = spawn_gated(start)
        record = self._record(spec, process, port)
        process.open()
        return record

    def _cpu_cores(self) -> int | None:
        python = self._host.settings.engine_python
        is_for_cpus = python is not None and is_cpu_build(python)
        return len(os.sched_getaffinity(0)) if is_for_cpus else None

    def _record(self, spec: WorkerSpec, process: GatedProcess, port: int) -> GroupRecord:
        try:
            record = GroupRecord(
                name=f"{WORKER_KIND}-{spec.id}",
                pid=process.pid,
                start_time=start_time_of(process.pid),
                spec_digest=spec.digest,
                kind=WORKER_KIND,
                worker_id=spec.id,
                pool_id=spec.pool.id,
                port=port,
                served_model_name=spec.pool.served_model_name,
                task=spec.task,
                drain_timeout_s=spec.pool.drain_timeout_s,
            )
            self._records.write(record)
        except OSError:
            process.discard()
            raise
        return record

    def _watch(self, record: GroupRecord) -> None:
        former = self._engines.get(record.worker_id)
        if former is not None:
            former.prober.stop()
        questions = _Questions(self._host, record)
        prober = Prober(
            questions.health,
            proof=questions.first_token,
            eager_s=STARTING_PROBE_S,
            calm_s=READY_PROBE_S,
        )
        self._ports[record.worker_id] = record.port
        self._engines[record.worker_id] = _Engine(record, prober)

    async def _sweep(self, record: GroupRecord) -> None:
        """End what is left of a group whose leader died, and forget it."""
        kill_group(record)
        for _ in range(SWEEP_POLLS):
            if presence_of(record) is Presence.GONE:
                self._records.remove(record)
                return
            await asyncio.sleep(SWEEP_POLL_S)

    def _obituary(self, worker_id: str, code: int | None) -> str:
        if code is not None and code < 0:
            return f"the engine ended by {signal.Signals(-code).name}"
        how = "the engine ended" if code is None else f"the engine ended with code {code}"
        reason = reason_in(tail_of(log_path(self._logs, worker_id)))
        return how if reason is None else f"{how}: {reason}"

    def _port_for(self, spec: WorkerSpec) -> int:
        """The pool's port for this worker; without one, a free port, kept while it stays free."""
        if spec.pool.port_base is not None:
            return spec.pool.port_base + spec.ordinal
        kept = self._ports.get(spec.id)
        return kept if kept is not None and _is_free(kept) else _free_port()

    def _port_trouble(self, port: int) -> str | None:
        if port in self._host.settings.own_ports:
            return f"port {port} belongs to this installation"
        return None if _is_free(port) else f"port {port} is taken on {LOOPBACK}"

    async def _keep_logs(self) -> None:
        while True:
            for worker_id in tuple(self._engines):
                await asyncio.to_thread(rotate_if_large, log_path(self._logs, worker_id))
            await asyncio.sleep(LOG_CHECK_S)


class _Questions:
    """What an engine of ours is asked: whether it is well, and once to show that it can."""

    def __init__(self, host: Host, record: GroupRecord) -> None:
        self._probes = host.probes
        self._key = worker_key(host.settings.data_key, record.worker_id)
        self._base_url = _base_url(record.port)
        self._health = f"http://{LOOPBACK}:{record.port}/health"
        self._path, self._body = _first_request(record)

    async def health(self) -> str | None:
        call = ProbeCall(url=self._health, timeout_s=HEALTH_TIMEOUT_S)
        return await self._trouble(call, "its health check")

    async def first_token(self) -> str | None:
        call = ProbeCall(
            url=self._base_url + self._path,
            timeout_s=PROOF_TIMEOUT_S,
            bearer=self._key,
            body=self._body,
        )
        return await self._trouble(call, "its first request")

    async def _trouble(self, call: ProbeCall, what: str) -> str | None:
        try:
            status = await self._probes.ask(call)
        except ProbeFailed as failure:
            return f"{what}: {failure}"
        return None if status == _HEALTHY else f"{what} is answered with {status}"


def _first_request(record: GroupRecord) -> tuple[str, bytes]:
    model = record.served_model_name
    if record.task is Task.EMBED:
        return "/embeddings", msgspec.json.encode({"model": model, "input": "ready"})
    messages = [{"role": "user", "content": "ready"}]
    body = {"model": model, "messages": messages, "max_tokens": 1}
    return "/chat/completions", msgspec.json.encode(body)


def _worker_of(record: GroupRecord) -> Worker:
    return Worker(
        id=record.worker_id,
        pool_id=record.pool_id,
        digest=record.spec_digest,
        state=WorkerState.STARTING,
        changed_at=0.0,
        base_url=_base_url(record.port),
        drain_timeout_s=record.drain_timeout_s,
    )


def _base_url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}/v1"


def _is_free(port: int) -> bool:
    """Whether nothing listens on a port; connections that are only fading away do not count."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((LOOPBACK, port))
            trial.listen(1)
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind((LOOPBACK, 0))
        return int(trial.getsockname()[1])


def build(host: Host) -> ProcessProvisioner:
    """Make one that runs vLLM on this host."""
    return ProcessProvisioner(host, start_line=VllmStartLine(host.settings))

"""The pools process itself, started as in production and killed as in an accident."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import WorkerState
from inference.contract.snapshot import ModelRecord, PoolRecord
from inference.fleet.directory import read_directory
from inference.pools.groups import GroupRecord
from tests.inference.pools.engines import DATA_KEY, end_all, records_of
from tests.inference.publishing import build, publish
from tests.inference.stores import OwnStore

ROOT = Path(__file__).resolve().parents[3]
WORKER = "pool_a-0"
POLL_S = 0.02


@dataclass
class PoolsProcesses:
    """One installation's pools processes, one after another, and the engine they keep."""

    store: OwnStore
    admin: Redis
    var: Path
    engine_python: Path
    models: Path
    patience_s: float = 15.0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    versions: int = 0

    async def want(self, *pools: PoolRecord, model: ModelRecord | None = None) -> None:
        """Publish a configuration with these pools."""
        self.versions += 1
        models = (model or ModelRecord("mdl_a", "org_a", "smol"),)
        await publish(self.admin, build(self.versions, pools=pools, models=models, routes=()))

    def start(self) -> None:
        """Start a supervisor as the launcher does."""
        key = base64.urlsafe_b64encode(DATA_KEY).decode()
        settings = {
            "HEADWORKS_VAR": str(self.var),
            "HEADWORKS_STATE_URL": self.store.url,
            "HEADWORKS_DATA_KEY": key,
            "HEADWORKS_KEY_PEPPERS": f"1:{key}",
            "HEADWORKS_ENGINE_PYTHON": str(self.engine_python),
            "HEADWORKS_MODELS": str(self.models),
        }
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        command = (sys.executable, "-m", "inference", "pools")
        log = self.var.with_suffix(".log")
        with log.open("ab") as sink:
            self.processes.append(
                subprocess.Popen(command, cwd=ROOT, env=kept | settings, stderr=sink)
            )

    def end(self, number: signal.Signals) -> int:
        """Signal the last supervisor, wait until it is gone and return its exit code."""
        self.processes[-1].send_signal(number)
        return self.processes[-1].wait(10)

    def end_all(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        end_all(self.var)

    async def entry(self) -> WorkerEntry | None:
        """The worker as the directory shows it."""
        directory = await read_directory(self.admin, data_key=DATA_KEY)
        workers = directory.workers if directory is not None else ()
        return next((entry for entry in workers if entry.id == WORKER), None)

    async def fencing_token(self) -> int:
        """The token of the leader that wrote the directory last; 0 if nobody has."""
        directory = await read_directory(self.admin, data_key=DATA_KEY)
        return directory.fencing_token if directory is not None else 0

    async def wait_for(
        self, condition: Callable[[WorkerEntry | None], bool], what: str
    ) -> WorkerEntry | None:
        """Wait until the worker's entry is as wanted."""
        entry = None
        for _ in range(int(self.patience_s / POLL_S)):
            entry = await self.entry()
            if condition(entry):
                return entry
            assert self.processes[-1].poll() is None, "the supervisor ended"
            await asyncio.sleep(POLL_S)
        pytest.fail(f"{what} not within {self.patience_s} s: {entry}")

    async def wait_ready(self, *, restarts: int = 0) -> WorkerEntry:
        entry = await self.wait_for(
            lambda one: (
                one is not None and (one.state, one.restarts) == (WorkerState.READY, restarts)
            ),
            "a ready worker",
        )
        assert entry is not None
        return entry

    @property
    def record(self) -> GroupRecord:
        """The one worker's group."""
        (record,) = records_of(self.var)
        return record

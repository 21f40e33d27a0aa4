"""The supervisor: keeps the workers the configuration wants, and the directory that shows them.

One process of an installation leads. It looks at every worker once a tick, carries out what
`decisions.lifecycle` says, and writes the directory when that has changed. Nothing it keeps in
memory is lost with it: the next leader finds workers by their records and the directory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import PoolPower, Provisioner, WorkerState
from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.adoption import adopt, entry_of
from inference.decisions.lifecycle import (
    Act,
    Authority,
    Situation,
    Step,
    Worker,
    WorkerSpec,
    plan_workers,
    refused,
)
from inference.decisions.release import Heard, is_released
from inference.fleet.directory import DirectoryWriter
from inference.fleet.lease import LeaderLease, Standing
from inference.pools.base import Measurable, PoolProvisioner, StartRefused
from inference.snapshots.holder import SnapshotHolder
from inference.store import STORE_TROUBLE, StoreHealth

TICK_S = 0.5
"""A dead engine is seen within this; a look at a worker costs some 20 microseconds."""

REFRESH_S = 5.0
"""How soon a store that came back empty or older has the directory again."""

_MEASURED = (WorkerState.READY, WorkerState.DRAINING, WorkerState.DRAINED)

log = structlog.get_logger(__name__)

Follow = Callable[[], Awaitable[None]]
Hear = Callable[[], Awaitable[Heard]]
"""Raises STORE_TROUBLE."""


class Supervisor:
    """Runs the pools of one host while it leads, and stands by while it doesn't.

    `clock` gives seconds since the epoch and never goes back. `background` are the tasks it lives
    on: following the snapshot, writing vitals.
    """

    def __init__(
        self,
        *,
        holder: SnapshotHolder,
        lease: LeaderLease,
        writer: DirectoryWriter,
        provisioners: Mapping[Provisioner, PoolProvisioner],
        hear: Hear,
        clock: Callable[[], float],
    ) -> None:
        self._holder = holder
        self._lease = lease
        self._writer = writer
        self._provisioners = provisioners
        self._hear = hear
        self._clock = clock
        self._health = StoreHealth("supervisor")
        self._workers: dict[Provisioner, dict[str, Worker]] = {}
        self._planned: ConfigSnapshot | None = None
        self._specs: Mapping[Provisioner, Mapping[str, WorkerSpec]] = {}
        self._directory: Directory | None = None
        self._written_at = 0.0
        self._watched_at = -REFRESH_S
        self._is_in_charge = False

    @property
    def is_leader(self) -> bool:
        """Whether this process leads and has taken over its workers."""
        return self._is_in_charge and self._lease.standing is Standing.LEADER

    @property
    def directory_generation(self) -> int | None:
        """The generation last written by us; None while another leads."""
        return self._directory.generation if self._is_in_charge and self._directory else None

    @property
    def directory_token(self) -> int | None:
        """The fencing token it was written with; None while another leads."""
        return self._directory.fencing_token if self._is_in_charge and self._directory else None

    def measurable(self) -> tuple[Measurable, ...]:
        """The workers that run and can be measured, each once; none while we don't lead."""
        if not self.is_leader:
            return ()
        found = []
        own = self._own_addresses()
        for kind, workers in self._workers.items():
            is_own = self._provisioners[kind].owns_processes
            running = (one for one in workers.values() if one.state in _MEASURED)
            for worker in running:
                if not is_own and worker.base_url in own:
                    continue
                source = self._provisioners[kind].source_of(worker.id)
                if source is not None:
                    found.append(Measurable(worker.id, worker.pool_id, source))
        return tuple(found)

    def _own_addresses(self) -> frozenset[str]:
        """Where workers of our own listen: a static pool at one of them would count it twice."""
        return frozenset(
            worker.base_url
            for kind, workers in self._workers.items()
            if self._provisioners[kind].owns_processes
            for worker in workers.values()
        )

    def logs(self) -> Mapping[str, Path]:
        """Files of the workers there are and of those a stopped pool had, by worker id.

        None while this process doesn't lead.
        """
        if not self.is_leader or self._planned is None:
            return {}
        wanted = (
            (pool.provisioner, f"{pool.id}-{ordinal}")
            for pool in self._planned.pools.values()
            for ordinal in range(pool.replicas)
        )
        there = ((kind, one) for kind, workers in self._workers.items() for one in workers)
        paths = ((one, self._provisioners[kind].log_of(one)) for kind, one in (*there, *wanted))
        return {worker_id: path for worker_id, path in paths if path is not None}

    async def run(self, *background: Follow) -> None:
        """Supervise until cancelled; then let go of everything and leave the workers running."""
        self._lease.outbid(self._writer.kept_token())
        try:
            async with asyncio.TaskGroup() as group:
                for task in (self._lease.hold, *background):
                    group.create_task(_as_coroutine(task))
                while True:
                    await self.tick()
                    await asyncio.sleep(TICK_S)
        finally:
            await self._stand_down()
            await self._lease.release()

    async def tick(self) -> None:
        """Look at everything once and do what is due."""
        standing, snapshot = self._lease.standing, self._holder.current
        if standing is Standing.FOLLOWER:
            await self._stand_down()
            await self._watch()
            return
        if snapshot is None:
            return
        if not self._is_in_charge and not await self._take_over():
            return
        situation = await self._situation(standing)
        self._plan_for(snapshot)
        for kind in self._provisioners:
            await self._reconcile(kind, situation)
        if standing is Standing.LEADER:
            await self._publish()

    async def _watch(self) -> None:
        """While another leads, keep up with its directory: the store may lose it before we lead."""
        if self._clock() - self._watched_at < REFRESH_S:
            return
        self._watched_at = self._clock()
        try:
            self._lease.outbid(await self._writer.watch())
        except STORE_TROUBLE as error:
            self._health.failed(error)

    async def _take_over(self) -> bool:
        """Find the workers there are, and go on from the last directory; False if that is far."""
        try:
            last = await self._writer.last()
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return False
        prior = {entry.id: entry for entry in last.workers} if last is not None else {}
        self._directory = last
        self._planned = None
        for kind, provisioner in self._provisioners.items():
            found = await provisioner.recover()
            adopted = (adopt(worker, prior.get(worker.id), self._clock()) for worker in found)
            self._workers[kind] = {worker.id: worker for worker in adopted}
            for worker in self._workers[kind].values():
                log.info("worker adopted", worker_id=worker.id, state=worker.state)
        self._is_in_charge = True
        return True

    async def _stand_down(self) -> None:
        """Let go of all workers without touching them."""
        if not self._is_in_charge:
            return
        self._is_in_charge = False
        self._directory = None
        self._workers = {}
        for provisioner in self._provisioners.values():
            await provisioner.close()

    def _plan_for(self, snapshot: ConfigSnapshot) -> None:
        """Work out which workers a snapshot wants, once a snapshot."""
        if snapshot is self._planned:
            return
        wanted: dict[Provisioner, dict[str, WorkerSpec]] = {kind: {} for kind in self._provisioners}
        for pool in snapshot.pools.values():
            if pool.power is not PoolPower.STOPPED:
                task = snapshot.models[pool.model_id].task
                specs = self._provisioners[pool.provisioner].specs(pool, task)
                wanted[pool.provisioner].update({spec.id: spec for spec in specs})
        self._planned, self._specs = snapshot, wanted

    async def _situation(self, standing: Standing) -> Situation:
        is_leader = standing is Standing.LEADER
        return Situation(
            now=self._clock(),
            authority=Authority.LEADER if is_leader else Authority.CARETAKER,
            released=await self._released() if is_leader else frozenset(),
        )

    async def _released(self) -> frozenset[str]:
        """Draining workers that no gateway uses; none while the gateways' word can't be had."""
        asked = [
            one
            for one in self._all()
            if one.state is WorkerState.DRAINING and one.drain_generation is not None
        ]
        if not asked:
            return frozenset()
        try:
            heard = await self._hear()
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return frozenset()
        return frozenset(worker.id for worker in asked if is_released(worker, heard))

    async def _reconcile(self, kind: Provisioner, situation: Situation) -> None:
        provisioner, workers = self._provisioners[kind], self._workers[kind]
        specs = self._specs[kind]
        steps = plan_workers(
            tuple(specs.values()),
            workers,
            {worker_id: provisioner.sight(worker_id) for worker_id in workers},
            replace(situation, owns_processes=provisioner.owns_processes),
        )
        for step in steps:
            before = workers.get(step.worker.id)
            worker = await self._carry_out(step, specs.get(step.worker.id), provisioner)
            if worker is None:
                del workers[step.worker.id]
            else:
                workers[worker.id] = worker
            self._tell(before, worker)

    async def _carry_out(
        self, step: Step, spec: WorkerSpec | None, provisioner: PoolProvisioner
    ) -> Worker | None:
        worker = step.worker
        if step.act is Act.START and spec is not None:
            try:
                return replace(worker, base_url=await provisioner.start(spec))
            except StartRefused as refusal:
                there = replace(worker, base_url=refusal.base_url)
                return refused(there, str(refusal), self._clock())
        if step.act is Act.TERMINATE:
            provisioner.terminate(worker.id)
        elif step.act is Act.KILL:
            provisioner.kill(worker.id)
        elif step.act is Act.FORGET:
            provisioner.forget(worker.id)
            return None
        return worker

    def _tell(self, before: Worker | None, worker: Worker | None) -> None:
        one = worker or before
        if one is None or (before and worker and before.state is worker.state):
            return
        log.info(
            "worker changed",
            worker_id=one.id,
            state=worker.state if worker else "ended",
            was=before.state if before else None,
            restarts=one.restarts,
            detail=one.detail,
            snapshot_version=self._planned.version if self._planned else None,
        )

    async def _publish(self) -> None:
        """Write the directory if it has changed, and now and then all the same."""
        token, now = self._lease.token, self._clock()
        if token is None:
            return
        directory = self._next_directory(token, now)
        if directory is self._directory and now - self._written_at < REFRESH_S:
            return
        try:
            is_taken = await self._writer.write(directory)
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return
        self._health.succeeded()
        if not is_taken:
            log.warning("directory refused: overtaken", fencing_token=token)
            return
        self._directory, self._written_at = directory, now
        self._note_drains(directory)

    def _next_directory(self, token: int, now: float) -> Directory:
        entries = tuple(self._entries())
        last = self._directory
        if last is not None and last.fencing_token == token and last.workers == entries:
            return last
        generation = last.generation + 1 if last is not None else 1
        return Directory(token, generation, now, entries)

    def _entries(self) -> Iterator[WorkerEntry]:
        """An entry a worker id; while a pool changes its kind, the worker that is wanted."""
        shown: dict[str, WorkerEntry] = {}
        for kind, workers in self._workers.items():
            derived = self._provisioners[kind].uses_derived_key
            for worker in workers.values():
                if worker.id not in shown or worker.id in self._specs[kind]:
                    shown[worker.id] = entry_of(worker, uses_derived_key=derived)
        yield from (shown[worker_id] for worker_id in sorted(shown))

    def _note_drains(self, directory: Directory) -> None:
        """Remember by which directory gateways could first see that a worker drains."""
        for workers in self._workers.values():
            for worker in tuple(workers.values()):
                is_new = worker.state is WorkerState.DRAINING and worker.drain_generation is None
                if is_new:
                    workers[worker.id] = replace(
                        worker,
                        drain_generation=directory.generation,
                        drain_token=directory.fencing_token,
                    )

    def _all(self) -> Iterator[Worker]:
        for workers in self._workers.values():
            yield from workers.values()


async def _as_coroutine(task: Follow) -> None:
    await task()

"""How busy each ready worker is, measured once a second beside the supervisor's own work."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference.contract.vitals import WorkerGauges
from inference.pools.base import Measurable, Source
from inference.pools.engine_metrics import NO_LOAD, EngineLoad, load_in
from inference.pools.gpus import Gpus
from inference.pools.groups import GroupRecord
from inference.pools.host_use import HostUse
from inference.pools.probes import ProbeCall, ProbeClient, ProbeFailed

GAUGES_PERIOD_S = 1.0

FRESH_S = 3.0
"""One answer may be lost without a gap; what is older is not known any more."""

SILENT_S = 10.0
"""A server that answers without telling its load is asked again after this."""

_OK = 200


@dataclass(frozen=True, slots=True)
class _Use:
    """What a worker's group takes: of its GPUs if it uses any, else of the host."""

    utilisation: float | None = None
    memory_bytes: int | None = None
    is_gpu: bool = False


_NO_USE = _Use()


@dataclass(slots=True)
class _Watched:
    """What was last learnt of a worker, and when, by the stopwatch."""

    source: Source
    load: EngineLoad = NO_LOAD
    load_at_s: float | None = None
    use: _Use = _NO_USE
    use_at_s: float | None = None
    is_asked: bool = False
    silent_until_s: float | None = None


class Gauges:
    """Measures `workers` while it runs. Nobody waits for a worker that is slow to answer.

    `clock` gives seconds since the epoch, `stopwatch` seconds that never jump.
    """

    def __init__(
        self,
        *,
        workers: Callable[[], Sequence[Measurable]],
        probes: ProbeClient,
        host: HostUse,
        gpus: Gpus,
        clock: Callable[[], float],
        stopwatch: Callable[[], float],
    ) -> None:
        self._workers = workers
        self._probes = probes
        self._host = host
        self._gpus = gpus
        self._clock = clock
        self._stopwatch = stopwatch
        self._watched: dict[str, _Watched] = {}

    def current(self) -> tuple[WorkerGauges, ...]:
        """Each worker as measured last; what has not been answered of late is None."""
        now_s = self._stopwatch()
        return tuple(self._gauges(worker, now_s) for worker in self._workers())

    async def run(self) -> None:
        """Measure every second until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._watch(self._workers())
                for watched in self._watched.values():
                    if watched.source.metrics is not None and self._is_due(watched):
                        watched.is_asked = True
                        group.create_task(self._scrape(watched, watched.source.metrics))
                await self._look()
                await asyncio.sleep(GAUGES_PERIOD_S)

    def _watch(self, workers: Sequence[Measurable]) -> None:
        """Keep what is known of these workers; one that was started anew is another."""
        before = self._watched
        self._watched = {}
        for worker in workers:
            known = before.get(worker.worker_id)
            is_same = known is not None and known.source == worker.source
            self._watched[worker.worker_id] = (
                known if known is not None and is_same else _Watched(worker.source)
            )

    def _is_due(self, watched: _Watched) -> bool:
        until_s = watched.silent_until_s
        return not watched.is_asked and (until_s is None or self._stopwatch() >= until_s)

    async def _scrape(self, watched: _Watched, call: ProbeCall) -> None:
        asked_at_s = self._stopwatch()
        try:
            answer = await self._probes.fetch(call)
        except ProbeFailed:
            return
        finally:
            watched.is_asked = False
        watched.load = load_in(answer.body) if answer.status == _OK else NO_LOAD
        watched.load_at_s = asked_at_s
        watched.silent_until_s = asked_at_s + SILENT_S if watched.load == NO_LOAD else None

    async def _look(self) -> None:
        groups = [one.source.group for one in self._watched.values() if one.source.group]
        at_s = self._stopwatch()
        uses = await asyncio.to_thread(self._measure, groups)
        for worker_id, watched in self._watched.items():
            use = uses.get(worker_id)
            if use is not None:
                watched.use, watched.use_at_s = use, at_s

    def _measure(self, groups: Sequence[GroupRecord]) -> Mapping[str, _Use]:
        on_host = self._host.look(groups)
        on_gpus = self._gpus.use_of({worker_id: use.pids for worker_id, use in on_host.items()})
        uses = {worker_id: _Use(use.cpu, use.memory_bytes) for worker_id, use in on_host.items()}
        for worker_id, use in on_gpus.items():
            uses[worker_id] = _Use(use.utilisation, use.memory_bytes, is_gpu=True)
        return uses

    def _gauges(self, worker: Measurable, now_s: float) -> WorkerGauges:
        watched = self._watched.get(worker.worker_id)
        if watched is None or watched.source != worker.source:
            watched = _Watched(worker.source)
        load_age_s = _age_s(watched.load_at_s, now_s)
        use_age_s = _age_s(watched.use_at_s, now_s)
        load = NO_LOAD if load_age_s is None else watched.load
        use = _NO_USE if use_age_s is None else watched.use
        return WorkerGauges(
            worker_id=worker.worker_id,
            pool_id=worker.pool_id,
            at=self._clock() - max(load_age_s or 0.0, use_age_s or 0.0),
            running=load.running,
            waiting=load.waiting,
            kv_used=load.kv_used,
            utilisation=use.utilisation,
            memory_bytes=use.memory_bytes,
            is_gpu=use.is_gpu,
            prefix_tokens_total=load.prefix_tokens,
            prefix_hits_total=load.prefix_hits,
        )


def _age_s(at_s: float | None, now_s: float) -> float | None:
    """How old a fact is; None if there is none, or if it is too old to be told."""
    if at_s is None or now_s - at_s > FRESH_S:
        return None
    return now_s - at_s

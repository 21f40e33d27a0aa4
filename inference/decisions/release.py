"""Whether anything may still be running at a worker that drains."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Vitals
from inference.decisions.lifecycle import Worker


@dataclass(frozen=True, slots=True)
class Heard:
    """The vitals of all that live, and gateway processes that fell silent without signing off."""

    vitals: Sequence[Vitals]
    silent: frozenset[str] = frozenset()


def is_released(worker: Worker, heard: Heard) -> bool:
    """Whether no gateway has anything running at this worker, nor will send it anything.

    Every live gateway must have said so, at the directory's generation that first showed it drain.
    A silent one may go on serving by what it has on disk: for it the worker's own count decides.
    """
    generation = worker.drain_generation
    if generation is None:
        return False
    has_left = all(
        record.directory_generation is not None
        and record.directory_generation >= generation
        and record.inflight.get(worker.id, 0) == 0
        for record in heard.vitals
        if record.role is ProcessRole.GATEWAY
    )
    return has_left and (not heard.silent or _says_it_is_free(worker, heard.vitals))


def _says_it_is_free(worker: Worker, vitals: Sequence[Vitals]) -> bool:
    """Whether the worker was measured since it drains and had nothing running or waiting."""
    return any(
        gauges.running == 0 and not gauges.waiting
        for record in vitals
        if record.is_leader
        for gauges in record.workers
        if gauges.worker_id == worker.id and gauges.at >= worker.changed_at
    )

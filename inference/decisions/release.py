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

    Every live gateway must have said so, at the directory that first showed it drain, or a newer
    one. A silent one may go on serving by what it has on disk: for it the worker's own count
    decides; so it does where nobody is heard, as after a store was emptied.
    """
    gateways = [one for one in heard.vitals if one.role is ProcessRole.GATEWAY]
    if not all(_has_left(worker, record) for record in gateways):
        return False
    is_certain = bool(gateways) and not heard.silent
    return worker.drain_generation is not None and (
        is_certain or _says_it_is_free(worker, heard.vitals)
    )


def _has_left(worker: Worker, record: Vitals) -> bool:
    """Whether a gateway knows that the worker drains, and has nothing there.

    Generations count from 1 again where a store and a supervisor's disk were lost: only together
    with the leader's token do they say which directory is newer. Older gateways don't tell it.
    """
    asked, known = worker.drain_generation, record.directory_generation
    if asked is None or known is None or record.inflight.get(worker.id, 0):
        return False
    if record.directory_token is None:
        return known >= asked
    return (record.directory_token, known) >= (worker.drain_token, asked)


def _says_it_is_free(worker: Worker, vitals: Sequence[Vitals]) -> bool:
    """Whether the worker was measured since it drains and had nothing running or waiting."""
    return any(
        gauges.running == 0 and not gauges.waiting
        for record in vitals
        if record.is_leader
        for gauges in record.workers
        if gauges.worker_id == worker.id and gauges.at >= worker.changed_at
    )

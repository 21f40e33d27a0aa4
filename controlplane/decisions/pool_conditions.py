"""How a pool is, told from what its supervisor says of its workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import PoolPower, Provisioner, WorkerState


class ConditionKind(StrEnum):
    """The word of a pool's state."""

    READY = "ready"
    NOT_CHECKED_YET = "not_checked_yet"
    DEGRADED = "degraded"
    STARTING = "starting"
    DOWN = "down"
    STOPPED = "stopped"
    DRAINING = "draining"
    DRAINED = "drained"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """A pool's state; `ready` is None when nobody can tell now, never 0 for that."""

    kind: ConditionKind
    wanted: int
    ready: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool should have: its own workers, or those at its addresses.

    `cordoned` are numbers of workers that are wanted drained, if they are wanted at all.
    """

    name: str
    provisioner: str
    power: str
    replicas: int
    addresses: int
    cordoned: Sequence[int] = ()

    @property
    def workers(self) -> int:
        if self.power == PoolPower.STOPPED:
            return 0
        return self.addresses if self.is_static else self.replicas

    @property
    def is_static(self) -> bool:
        return self.provisioner == Provisioner.STATIC

    @property
    def set_aside(self) -> int:
        """How many of the wanted workers are wanted drained."""
        return sum(number < self.workers for number in self.cordoned)

    @property
    def is_drained(self) -> bool:
        """Whether none of its workers is wanted at work."""
        return self.power == PoolPower.DRAINED or self.set_aside >= self.workers


def condition_of(
    wanted: Wanted, workers: Sequence[WorkerEntry] | None, *, has_leader: bool
) -> Condition:
    """Judge a pool by its entries of the directory; `workers` is None if it can't be read."""
    count = wanted.workers
    if workers is None:
        return Condition(ConditionKind.UNKNOWN, count, None, "the state store is not answering")
    if wanted.power == PoolPower.STOPPED:
        leaving = len(workers) if not wanted.is_static else 0
        reason = f"{leaving} still ending requests" if leaving else ""
        return Condition(ConditionKind.STOPPED, 0, 0, reason)
    if count == 0:
        reason = "no addresses" if wanted.is_static else "no replicas are wanted"
        return Condition(ConditionKind.STOPPED, 0, 0, reason)
    if wanted.is_drained:
        return _drained(wanted, workers)
    if wanted.is_static:
        return _static(wanted, workers, has_leader=has_leader)
    return _started(wanted, workers, has_leader=has_leader)


_LEAVING = (WorkerState.DRAINING, WorkerState.DRAINED)
_FAILING = (WorkerState.FAILED, WorkerState.BACKING_OFF)


def _drained(wanted: Wanted, workers: Sequence[WorkerEntry]) -> Condition:
    """Drained once every gateway has said so of each worker; an unknown address still serves."""
    ready = sum(one.state is WorkerState.READY for one in workers)
    busy = ready + sum(one.state is WorkerState.DRAINING for one in workers)
    if wanted.is_static:
        busy += max(0, wanted.workers - len(workers))
    failing = [one for one in workers if one.state in _FAILING]
    if busy:
        done = sum(one.state is WorkerState.DRAINED for one in workers)
        told = f"{done:,} of {wanted.workers:,} drained"
        return Condition(ConditionKind.DRAINING, wanted.workers, ready, told)
    return Condition(ConditionKind.DRAINED, wanted.workers, 0, _why(wanted, failing))


def _static(wanted: Wanted, workers: Sequence[WorkerEntry], *, has_leader: bool) -> Condition:
    """An address is ready once it has been looked at, until its health check fails."""
    leaving = [one for one in workers if one.state in _LEAVING]
    failed = [one for one in workers if one.state is not WorkerState.READY and one not in leaving]
    unchecked = max(0, wanted.workers - len(workers))
    ready = max(0, wanted.workers - len(failed) - len(leaving) - unchecked)
    if failed:
        kind = ConditionKind.DEGRADED if ready or unchecked else ConditionKind.DOWN
        return Condition(kind, wanted.workers, ready, _why(wanted, failed))
    if not workers:
        why = _UNCHECKED if has_leader else f"no supervisor leads; {_UNCHECKED}"
        return Condition(ConditionKind.NOT_CHECKED_YET, wanted.workers, None, why)
    words = _cordoned_words(wanted) if leaving else _unchecked_words(wanted, unchecked, has_leader)
    return Condition(ConditionKind.READY, wanted.workers, ready, words)


_UNCHECKED = "gateways send to it meanwhile"
"""An address of which nothing is known is tried, so that a new pool serves at once."""


def _unchecked_words(wanted: Wanted, unchecked: int, has_leader: bool) -> str:
    """Say which addresses nobody has looked at, or that nobody looks any more."""
    if not has_leader:
        return "not checked: no supervisor leads"
    return f"{unchecked:,} of {wanted.workers:,} not checked yet" if unchecked else ""


def _started(wanted: Wanted, workers: Sequence[WorkerEntry], *, has_leader: bool) -> Condition:
    count = wanted.workers
    ready = sum(one.state is WorkerState.READY for one in workers)
    others = [one for one in workers if one.state is not WorkerState.READY]
    if ready >= count:
        return Condition(ConditionKind.READY, count, ready, "")
    if ready >= count - wanted.set_aside:
        return Condition(ConditionKind.READY, count, ready, _cordoned_words(wanted))
    reason = _why(wanted, others) or _why_missing(count - len(workers), has_leader=has_leader)
    if ready:
        return Condition(ConditionKind.DEGRADED, count, ready, reason)
    is_starting = any(one.state is WorkerState.STARTING for one in others)
    kind = ConditionKind.STARTING if is_starting or not others else ConditionKind.DOWN
    if not has_leader:
        kind = ConditionKind.DOWN
    return Condition(kind, count, 0, reason)


def _cordoned_words(wanted: Wanted) -> str:
    aside = wanted.set_aside
    return f"{aside:,} of {wanted.workers:,} drained by hand" if aside else ""


def _why_missing(missing: int, *, has_leader: bool) -> str:
    if not has_leader:
        return "no supervisor leads, so nothing starts"
    return f"{missing} not started yet" if missing > 0 else ""


_GRAVEST = (
    WorkerState.FAILED,
    WorkerState.BACKING_OFF,
    WorkerState.STARTING,
    WorkerState.DRAINING,
    WorkerState.DRAINED,
)


def _why(wanted: Wanted, others: Sequence[WorkerEntry]) -> str:
    """The worst of the workers that aren't ready, with what its supervisor said of it."""
    if not others:
        return ""
    worst = min(others, key=lambda one: (_GRAVEST.index(one.state), one.id))
    name = f"{wanted.name}/{worst.id.rpartition('-')[2]}"
    words = f"{name} {worst.state.replace('_', ' ')}"
    return f"{words}: {worst.detail}" if worst.detail else words

"""The breakers of a pool's workers as gateway processes tell of them, and where they are ignored.

A process that would send to too few of the ready workers sends to all of them: that is panic. If no
worker at all is left, the pool is the last resort: it is sent to only if no other target has room.
No process tells of either, so it is told here from the breakers, by the rule of those processes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference.contract.kinds import BreakerState
from inference.decisions.breaker import Capacity, capacity_of


@dataclass(frozen=True, slots=True, order=True)
class BreakerFacts:
    """One breaker that is not closed: of a worker, at a gateway process."""

    worker: str
    process: str
    state: BreakerState


def breakers_of(
    pool_id: str, told: Iterable[tuple[str, Mapping[str, BreakerState]]]
) -> Sequence[BreakerFacts]:
    """What processes tell of one pool's workers, by worker and process."""
    return sorted(
        BreakerFacts(worker, process, state)
        for process, breakers in told
        for worker, state in breakers.items()
        if worker.rpartition("-")[0] == pool_id and state is not BreakerState.CLOSED
    )


def panic_at(
    ready: Collection[str], breakers: Iterable[BreakerFacts], *, percent: int
) -> Sequence[str]:
    """The processes that ignore the pool's breakers, for these workers being ready."""
    found = _capacities(ready, breakers, percent)
    return [one for one, room in found.items() if room.is_panic and not room.is_last_resort]


def last_resort_at(
    ready: Collection[str], breakers: Iterable[BreakerFacts], *, percent: int
) -> Sequence[str]:
    """The processes at which every breaker is open: they send there if nothing else has room."""
    found = _capacities(ready, breakers, percent)
    return [one for one, room in found.items() if room.is_last_resort]


def _capacities(
    ready: Collection[str], breakers: Iterable[BreakerFacts], percent: int
) -> Mapping[str, Capacity[str]]:
    """Whom each process that has an open breaker may send to, by its name."""
    shut: dict[str, set[str]] = {}
    for one in breakers:
        if one.state is BreakerState.OPEN:
            shut.setdefault(one.process, set()).add(one.worker)
    ordered = sorted(ready)
    return {
        process: capacity_of(
            ordered, [one for one in ordered if one not in workers], panic_percent=percent
        )
        for process, workers in sorted(shut.items())
    }

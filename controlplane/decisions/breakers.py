"""The breakers of a pool's workers as gateway processes tell of them, and where they are ignored.

A process that would send to too few of the ready workers sends to all of them: that is panic. No
process tells of it, so it is told here from the breakers, by the rule of those processes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference.contract.kinds import BreakerState
from inference.decisions.breaker import capacity_of


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
    shut: dict[str, set[str]] = {}
    for one in breakers:
        if one.state is BreakerState.OPEN:
            shut.setdefault(one.process, set()).add(one.worker)
    found = []
    for process, workers in sorted(shut.items()):
        admitted = [one for one in ready if one not in workers]
        if capacity_of(sorted(ready), admitted, panic_percent=percent).is_panic:
            found.append(process)
    return found

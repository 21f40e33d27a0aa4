"""How pools are: what is wanted of them beside what the directory says of their workers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.bridge.vitals import Fleet
from controlplane.decisions.pool_conditions import Condition, Wanted, condition_of
from controlplane.models import Pool
from inference.contract.fleet import WorkerEntry

Entries = Mapping[str, Sequence[WorkerEntry]]
"""What the directory says, by pool."""


def wanted_of(pool: Pool) -> Wanted:
    """What the pool should have."""
    return Wanted(
        pool.name,
        pool.provisioner,
        pool.power,
        pool.replicas,
        len(pool.addresses),
        cordoned=pool.cordoned,
    )


def entries_by_pool(fleet: Fleet | None) -> Entries | None:
    """The directory's entries; None if it can't be read."""
    if fleet is None or fleet.workers is None:
        return None
    found: dict[str, list[WorkerEntry]] = {}
    for worker in fleet.workers:
        found.setdefault(worker.pool_id, []).append(worker)
    return found


def condition_in(
    fleet: Fleet | None, entries: Entries | None, pool: Pool, *, is_whole: bool
) -> Condition:
    """How one pool is; what a worker said of itself only to who reads the whole organisation."""
    workers = None if entries is None else entries.get(pool.pk, ())
    if workers is not None and not is_whole:
        workers = [replace(one, detail=None) for one in workers]
    has_leader = fleet is not None and fleet.has_leader
    return condition_of(wanted_of(pool), workers, has_leader=has_leader)

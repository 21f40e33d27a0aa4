"""Which workers there should be, by configuration and directory, and how much each one takes."""

from collections.abc import Iterator, Mapping

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import PoolPower, Provisioner, WorkerState
from inference.contract.snapshot import ConfigSnapshot, PoolRecord

USUAL_CONCURRENCY = 128
"""vLLM's own default lies between 128 and 1,024 by device; too low a guess spreads sooner."""

USUAL_PREFILL_RATE = 4_000.0
"""A model of 8 thousand million parameters on one middling GPU, in tokens a second.

It only weighs prompts against requests until the first streams have shown the worker's own.
"""


def entries_of(
    snapshot: ConfigSnapshot, directory: Directory | None
) -> Iterator[tuple[PoolRecord, WorkerEntry]]:
    """Every worker there should be: static pools' addresses, and the rest of the directory."""
    listed = {} if directory is None else {entry.id: entry for entry in directory.workers}
    for pool in snapshot.pools.values():
        if pool.provisioner is Provisioner.STATIC and pool.power is PoolPower.RUNNING:
            for index, base_url in enumerate(pool.addresses):
                yield pool, _static_entry(pool, index, base_url, listed)
    for entry in listed.values():
        owner = snapshot.pools.get(entry.pool_id)
        if owner is not None and owner.provisioner is not Provisioner.STATIC:
            yield owner, entry


def state_of(pool: PoolRecord, entry: WorkerEntry) -> WorkerState:
    """A worker's state as the configuration lets it be: a cordon holds without a supervisor."""
    is_cordoned = any(entry.id == f"{pool.id}-{ordinal}" for ordinal in pool.cordoned)
    if is_cordoned and entry.state is WorkerState.READY:
        return WorkerState.DRAINING
    return entry.state


def concurrency_of(pool: PoolRecord) -> int:
    """How many requests one worker of the pool runs at once, as far as anybody said."""
    return slots_said(pool) or USUAL_CONCURRENCY


def slots_said(pool: PoolRecord) -> int | None:
    """How many requests one worker of the pool takes at once; None if nobody said."""
    if pool.worker_concurrency is not None:
        return max(pool.worker_concurrency, 1)
    stated = pool.engine_arguments.get("max_num_seqs")
    return stated if isinstance(stated, int) and stated > 0 else None


def _static_entry(
    pool: PoolRecord, index: int, base_url: str, listed: Mapping[str, WorkerEntry]
) -> WorkerEntry:
    """Ready until the directory says otherwise of this very address: a new one serves at once."""
    worker_id = f"{pool.id}-{index}"
    entry = listed.get(worker_id)
    if entry is not None and entry.base_url == base_url:
        return entry
    return WorkerEntry(worker_id, pool.id, base_url, WorkerState.READY, changed_at=0.0)

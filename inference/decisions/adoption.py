"""What a new leader makes of workers it finds running, and how the directory shows them."""

import math
from dataclasses import replace

from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import WorkerState
from inference.decisions.lifecycle import Worker


def adopt(found: Worker, prior: WorkerEntry | None, now: float) -> Worker:
    """A worker that outlived its supervisor. One that served goes on serving, the rest must prove.

    One that drained goes on draining, with all its time: whether it was told to end nobody knows,
    so it serves again only once it has proved itself. One that is drained was drained to be kept.
    Its time to start begins anew as well: how long it has been running says nothing about its
    health.
    """
    known = prior if prior is not None and prior.base_url == found.base_url else None
    adopted = replace(
        found,
        state=WorkerState.STARTING,
        changed_at=now,
        started_at=now,
        restarts=prior.restarts if prior is not None else 0,
    )
    if known is None or known.state not in _SERVED:
        return adopted
    if known.state is WorkerState.DRAINING:
        patience_s = found.drain_timeout_s
        return replace(adopted, state=known.state, ready_at=now, patience_s=patience_s)
    patience_s = math.inf if known.state is WorkerState.DRAINED else 0.0
    return replace(
        adopted,
        state=known.state,
        ready_at=now,
        changed_at=known.changed_at,
        patience_s=patience_s,
    )


_SERVED = (WorkerState.READY, WorkerState.DRAINING, WorkerState.DRAINED)


def entry_of(worker: Worker, *, uses_derived_key: bool) -> WorkerEntry:
    """The worker as the directory shows it."""
    return WorkerEntry(
        id=worker.id,
        pool_id=worker.pool_id,
        base_url=worker.base_url,
        state=worker.state,
        changed_at=worker.changed_at,
        uses_derived_key=uses_derived_key,
        restarts=worker.restarts,
        detail=worker.detail,
    )

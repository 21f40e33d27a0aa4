"""The fleet as one gateway process knows it, put together from what all processes tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import BreakerState, WorkerState
from inference.contract.snapshot import ConfigSnapshot, PoolRecord
from inference.contract.vitals import VITALS_LIFE_S, VITALS_PERIOD_S, Vitals
from inference.decisions.breaker import CLOSED, Breaker
from inference.decisions.fleet_view import FleetView, WorkerView, fleet_view
from inference.decisions.queueing import Crowd, slots_of
from inference.decisions.roster import concurrency_of, entries_of, slots_said, state_of

_KV_FRESH_S = 2 * VITALS_PERIOD_S + 0.5


@dataclass(frozen=True, slots=True)
class Described:
    """A fleet, which process sees it so, and when that process last told; None is nobody did.

    `steps` are how many steps of degradation it has taken, by route.
    """

    fleet: FleetView
    process: str | None
    processes: tuple[str, ...]
    told_at_s: float | None
    steps: Mapping[str, int] = field(default_factory=dict)


def describe(
    snapshot: ConfigSnapshot,
    directory: Sequence[WorkerEntry],
    records: Sequence[Vitals],
    supervisors: Sequence[Vitals],
    *,
    organisation_id: str,
    process: str | None,
    now_s: float,
) -> Described:
    """The workers of an organisation as this gateway process, or the first one, sees them.

    `records` are the gateways' vitals. What each process learned of workers' speed, what was said
    "not now" and what is cached are its own and in no record: workers count as of usual speed, as
    willing, and as having nothing.
    """
    living = sorted(
        (one for one in records if now_s - one.written_at <= VITALS_LIFE_S),
        key=lambda one: one.process,
    )
    names = tuple(one.process for one in living)
    own = next((one for one in living if one.process == process), living[0] if living else None)
    others = [one for one in living if one is not own]
    roster = Directory(0, 0, now_s, tuple(directory))
    workers = [
        _view(pool, entry, own, others, supervisors, now_s)
        for pool, entry in entries_of(snapshot, roster)
        if pool.organisation_id == organisation_id
    ]
    return Described(
        fleet_view(workers, now_s=now_s),
        None if own is None else own.process,
        names,
        None if own is None else own.written_at,
        {} if own is None else dict(own.degraded),
    )


def without_load(described: Described) -> Described:
    """The same fleet as if nothing were under way: for who may not know of others' traffic."""
    workers = [
        WorkerView(one.id, one.pool_id, one.state, concurrency=one.concurrency)
        for found in described.fleet.pools.values()
        for one in found
    ]
    return replace(described, fleet=fleet_view(workers, now_s=described.fleet.now_s))


def _view(
    pool: PoolRecord,
    entry: WorkerEntry,
    own: Vitals | None,
    others: Sequence[Vitals],
    supervisors: Sequence[Vitals],
    now_s: float,
) -> WorkerView:
    concurrency, said = concurrency_of(pool), slots_said(pool)
    inflight = 0 if own is None else max(own.inflight.get(entry.id, 0), 0)
    elsewhere = sum(max(one.inflight.get(entry.id, 0), 0) for one in others)
    return WorkerView(
        id=entry.id,
        pool_id=entry.pool_id,
        state=state_of(pool, entry),
        inflight=inflight,
        peers_inflight=elsewhere,
        prefill_tokens=0 if own is None else max(own.prefill_tokens.get(entry.id, 0), 0),
        peers_prefill_tokens=sum(max(one.prefill_tokens.get(entry.id, 0), 0) for one in others),
        concurrency=concurrency,
        kv_used=_kv_used(supervisors, entry.id, now_s),
        breaker=_breaker(own, entry.id, now_s),
        slots=None
        if said is None
        else slots_of(
            said, told=inflight, others=elsewhere, crowd=_crowd(own, others), pool_id=pool.id
        ),
    )


def _crowd(own: Vitals | None, others: Sequence[Vitals]) -> Crowd:
    if own is None:
        return Crowd()
    queued: dict[str, int] = {}
    for one in others:
        for pool_id, count in one.queued.items():
            queued[pool_id] = queued.get(pool_id, 0) + count
    rank = sum(one.process < own.process for one in others)
    return Crowd(len(others) + 1, rank, queued)


def _kv_used(supervisors: Sequence[Vitals], worker_id: str, now_s: float) -> float | None:
    for record in supervisors:
        for gauges in record.workers:
            is_fresh = now_s - gauges.at <= _KV_FRESH_S
            if gauges.worker_id == worker_id and is_fresh and gauges.kv_used is not None:
                return gauges.kv_used
    return None


def _breaker(own: Vitals | None, worker_id: str, now_s: float) -> Breaker:
    """One that is told to be half-open has a trial under way, or its next attempt will be one."""
    state = BreakerState.CLOSED if own is None else own.breakers.get(worker_id)
    if state is BreakerState.OPEN:
        return Breaker(BreakerState.OPEN, open_until=now_s + 1.0, openings=1)
    if state is BreakerState.HALF_OPEN:
        return Breaker(BreakerState.OPEN, open_until=now_s, openings=1)
    return CLOSED


def ready_workers(described: Described) -> dict[str, list[WorkerView]]:
    """The workers that are ready, by pool."""
    return {
        pool_id: [one for one in found if one.state is WorkerState.READY]
        for pool_id, found in described.fleet.pools.items()
    }

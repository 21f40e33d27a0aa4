"""Pools and their workers as pages tell them: one read of the fleet, one of the live figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from controlplane.bridge.conditions import condition_in, entries_by_pool
from controlplane.bridge.vitals import Fleet, read_fleet
from controlplane.console.details import State
from controlplane.console.scope import Scope
from controlplane.decisions.pool_conditions import Condition, ConditionKind
from controlplane.models import Pool
from controlplane.selectors.live import Summary, get_live, newest, span_of
from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import PoolPower, ProcessRole, Provisioner, WorkerState
from inference.contract.vitals import WorkerGauges

WINDOW = "5m"
"""The shortest there is: of it, pages of lists show the newest figures alone."""

_CONDITIONS: Mapping[ConditionKind, tuple[str, str]] = {
    ConditionKind.READY: ("ok", "ok"),
    ConditionKind.DEGRADED: ("warn", "warn"),
    ConditionKind.STARTING: ("clock", "info"),
    ConditionKind.DOWN: ("crit", "crit"),
    ConditionKind.STOPPED: ("stop", "idle"),
    ConditionKind.UNKNOWN: ("nodata", "idle"),
}
_WORKERS: Mapping[WorkerState, tuple[str, str]] = {
    WorkerState.READY: ("ok", "ok"),
    WorkerState.STARTING: ("clock", "info"),
    WorkerState.DRAINING: ("clock", "info"),
    WorkerState.BACKING_OFF: ("warn", "warn"),
    WorkerState.FAILED: ("crit", "crit"),
}


@dataclass(frozen=True, slots=True)
class PoolsNow:
    """What the fleet says now, read once for all pools of a page.

    `is_whole` is whether the reader reads the whole organisation: only he learns what workers say
    and measure.
    """

    fleet: Fleet | None
    summaries: Mapping[str, Summary]
    by_pool: Mapping[str, Sequence[WorkerEntry]] | None
    is_whole: bool

    def condition(self, pool: Pool) -> Condition:
        """How this pool is."""
        return condition_in(self.fleet, self.by_pool, pool, is_whole=self.is_whole)

    def summary(self, pool: Pool) -> Summary | None:
        """Its newest live figures; None if nothing was measured lately."""
        return self.summaries.get(pool.pk)


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. Figures are None where nobody measured them; `up_s` only while it is ready."""

    id: str
    number: int
    name: str
    state: State
    detail: str
    restarts: int | None
    inflight: int | None
    up_s: float | None
    address: str
    running: int | None = None
    waiting: int | None = None
    kv_percent: float | None = None
    utilisation: float | None = None
    memory_bytes: int | None = None
    is_gpu: bool = False


def read_pools_now(scope: Scope, now: datetime) -> PoolsNow:
    """Read the fleet once, and the live figures of the organisation's pools.

    A role in a team or project doesn't read those.
    """
    if not scope.access.reads_organisation(scope.organisation.pk):
        return _pools_now(scope, {})
    live = get_live(scope.access, scope.organisation, newest(span_of(WINDOW, now)))
    return _pools_now(scope, live.pool_summaries)


def read_pool_now(scope: Scope, pool: Pool, now: datetime, *, is_measured: bool = True) -> PoolsNow:
    """The same for one pool; its live figures only if they are wanted."""
    if not (is_measured and scope.access.reads_organisation(scope.organisation.pk)):
        return _pools_now(scope, {})
    live = get_live(scope.access, scope.organisation, newest(span_of(WINDOW, now)), pool_id=pool.pk)
    return _pools_now(scope, {pool.pk: live.summary})


def _pools_now(scope: Scope, summaries: Mapping[str, Summary]) -> PoolsNow:
    fleet = read_fleet()
    is_whole = scope.access.reads_organisation(scope.organisation.pk)
    return PoolsNow(fleet, summaries, entries_by_pool(fleet), is_whole)


def condition_state(condition: Condition) -> State:
    """A pool's state as word, icon and tone."""
    icon, tone = _CONDITIONS[condition.kind]
    words = condition.kind.value
    return State(words[:1].upper() + words[1:], icon, tone)


def ready_words(condition: Condition) -> str:
    """Workers ready of those wanted; unknown is a dash and never 0."""
    ready = "\N{EN DASH}" if condition.ready is None else f"{condition.ready:,}"
    return f"{ready} of {condition.wanted:,}"


def worker_rows(pool: Pool, now_of: PoolsNow, now: datetime) -> Sequence[WorkerRow] | None:
    """The pool's workers by number; None if nobody can tell now."""
    fleet = now_of.fleet
    if fleet is None or now_of.by_pool is None:
        return None
    gauges = _gauges_of(fleet)
    inflight = {
        worker: sum(one.inflight.get(worker, 0) for one in fleet.gateways)
        for one in fleet.gateways
        for worker in one.inflight
    }
    entries = {one.id: one for one in now_of.by_pool.get(pool.pk, ())}
    rows = [
        _row_of(pool, entry, inflight.get(entry.id, 0), gauges.get(entry.id), now)
        for entry in entries.values()
    ]
    rows += [_unchecked(pool, number, inflight) for number in _unknown_numbers(pool, entries)]
    if not now_of.is_whole:
        rows = [_narrowed(row) for row in rows]
    return sorted(rows, key=lambda row: row.number)


def _narrowed(row: WorkerRow) -> WorkerRow:
    """A worker to a role in a team or project: what it says and does tells of others' traffic."""
    return WorkerRow(
        id=row.id,
        number=row.number,
        name=row.name,
        state=row.state,
        detail="",
        restarts=row.restarts,
        inflight=None,
        up_s=row.up_s,
        address=row.address,
    )


def _unknown_numbers(pool: Pool, entries: Mapping[str, WorkerEntry]) -> Sequence[int]:
    """Addresses of a static pool that no check has spoken of: gateways take them to be ready."""
    if pool.provisioner != Provisioner.STATIC or pool.power == PoolPower.STOPPED:
        return ()
    return [at for at in range(len(pool.addresses)) if f"{pool.pk}-{at}" not in entries]


def _gauges_of(fleet: Fleet) -> Mapping[str, WorkerGauges]:
    """What the leading supervisor measured last."""
    found: dict[str, WorkerGauges] = {}
    for record in fleet.vitals:
        if record.role is ProcessRole.POOLS and record.is_leader:
            found |= {one.worker_id: one for one in record.workers}
    return found


def _row_of(
    pool: Pool, entry: WorkerEntry, inflight: int, gauges: WorkerGauges | None, now: datetime
) -> WorkerRow:
    number = int(entry.id.rpartition("-")[2])
    icon, tone = _WORKERS[entry.state]
    words = entry.state.value.replace("_", " ")
    since_s = (now - datetime.fromtimestamp(entry.changed_at, UTC)).total_seconds()
    row = WorkerRow(
        id=entry.id,
        number=number,
        name=f"{pool.name}/{number}",
        state=State(words[:1].upper() + words[1:], icon, tone),
        detail=entry.detail or "",
        restarts=entry.restarts,
        inflight=inflight,
        up_s=max(0.0, since_s) if entry.state is WorkerState.READY else None,
        address=entry.base_url,
    )
    return row if gauges is None else _measured(row, gauges)


def _measured(row: WorkerRow, gauges: WorkerGauges) -> WorkerRow:
    return replace(
        row,
        running=gauges.running,
        waiting=gauges.waiting,
        kv_percent=None if gauges.kv_used is None else gauges.kv_used * 100,
        utilisation=gauges.utilisation,
        memory_bytes=gauges.memory_bytes,
        is_gpu=gauges.is_gpu,
    )


def _unchecked(pool: Pool, number: int, inflight: Mapping[str, int]) -> WorkerRow:
    worker_id = f"{pool.pk}-{number}"
    return WorkerRow(
        id=worker_id,
        number=number,
        name=f"{pool.name}/{number}",
        state=State("Taken to be ready", "nodata", "idle"),
        detail="",
        restarts=None,
        inflight=inflight.get(worker_id, 0),
        up_s=None,
        address=pool.addresses[number],
    )

"""Pools and their workers as pages tell them: one read of the fleet, one of the live figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from controlplane.bridge.breakers import breakers_in, last_resort_in, panic_in
from controlplane.bridge.conditions import condition_in, entries_by_pool
from controlplane.bridge.vitals import Fleet, inflight_at, read_fleet
from controlplane.console.details import State
from controlplane.console.formats import count
from controlplane.console.pages import Action
from controlplane.console.scope import Scope
from controlplane.decisions.breakers import BreakerFacts
from controlplane.decisions.pool_conditions import Condition, ConditionKind
from controlplane.decisions.pools import PoolFacts
from controlplane.models import Pool
from controlplane.selectors.live import Summary, get_live, newest, span_of
from controlplane.services.route_rules import routes_with_pool_in_rules
from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import PoolPower, ProcessRole, Provisioner, WorkerState
from inference.contract.vitals import WorkerGauges

WINDOW = "5m"
"""The shortest there is: of it, pages of lists show the newest figures alone."""

_CONDITIONS: Mapping[ConditionKind, tuple[str, str]] = {
    ConditionKind.READY: ("ok", "ok"),
    ConditionKind.NOT_CHECKED_YET: ("nodata", "idle"),
    ConditionKind.DEGRADED: ("warn", "warn"),
    ConditionKind.STARTING: ("clock", "info"),
    ConditionKind.DOWN: ("crit", "crit"),
    ConditionKind.STOPPED: ("stop", "idle"),
    ConditionKind.DRAINING: ("clock", "info"),
    ConditionKind.DRAINED: ("pause", "idle"),
    ConditionKind.UNKNOWN: ("nodata", "idle"),
}
_WORKERS: Mapping[WorkerState, tuple[str, str]] = {
    WorkerState.READY: ("ok", "ok"),
    WorkerState.STARTING: ("clock", "info"),
    WorkerState.DRAINING: ("clock", "info"),
    WorkerState.DRAINED: ("pause", "idle"),
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

    def cost_nanousd_per_hour(self, pool: Pool) -> int | None:
        """What it costs; None where nobody can tell, never 0 for a model without a price."""
        summary = self.summary(pool)
        if summary is None or summary.lacks_price(is_priced=pool.is_priced):
            return None
        return summary.cost_nanousd_per_hour


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker. Figures are None where nobody measured them; `up_s` only while it is ready.

    `told` is the supervisor's word, None without one. `held` says which gateways have how much in
    flight at a worker that is to have nothing, `breakers` where it isn't let through.
    """

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
    told: WorkerState | None = None
    held: str = ""
    breakers: str = ""
    acts: Sequence[Action] = ()


def facts_of(pool: Pool) -> PoolFacts:
    """The pool as the words about an edit are made of it."""
    return PoolFacts(
        pool.provisioner,
        pool.power,
        pool.replicas,
        cordoned=tuple(pool.cordoned),
        restarts=pool.worker_restarts,
    )


def panic_words(pool: Pool, now_of: PoolsNow) -> str:
    """Where the pool's breakers are ignored now, or all open, in sentences; "" if nowhere."""
    if now_of.fleet is None or not now_of.is_whole:
        return ""
    breakers = breakers_in(now_of.fleet, pool)
    told = []
    if where := panic_in(now_of.fleet, pool, breakers):
        told.append(
            f"Panic at {', '.join(where)}: breakers would leave fewer than {pool.panic_percent} % "
            "of the ready workers, so they are ignored there and all workers are sent to."
        )
    if where := last_resort_in(now_of.fleet, pool, breakers):
        told.append(
            f"Every breaker is open at {', '.join(where)}: sent to only if no other target has "
            "room."
        )
    return " ".join(told)


def is_settled(pool: Pool, worker: WorkerRow) -> bool:
    """Whether a worker is where it's wanted: at work, or drained."""
    if pool.power == PoolPower.STOPPED:
        return False
    is_drained = pool.power == PoolPower.DRAINED or worker.number in pool.cordoned
    ends = (WorkerState.DRAINED, WorkerState.FAILED) if is_drained else _AT_REST
    return worker.told in ends


_AT_REST = (None, WorkerState.READY, WorkerState.BACKING_OFF, WorkerState.FAILED)


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
    words = condition.kind.value.replace("_", " ")
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
    entries = {one.id: one for one in now_of.by_pool.get(pool.pk, ())}
    rows = [_row_of(pool, entry, gauges.get(entry.id), now) for entry in entries.values()]
    rows += [_unchecked(pool, number) for number in _unknown_numbers(pool, entries)]
    if not now_of.is_whole:
        return sorted((_narrowed(row) for row in rows), key=lambda row: row.number)
    breakers = breakers_in(fleet, pool)
    leaving = {one.id for one in entries.values() if one.state in _LEAVING}
    told = [
        replace(
            row,
            inflight=sum(inflight_at(fleet, row.id).values()),
            held=_held_words(fleet, row.id) if row.id in leaving else "",
            breakers=_breaker_words(row.id, breakers),
        )
        for row in rows
    ]
    return sorted(told, key=lambda row: row.number)


_LEAVING = (WorkerState.DRAINING, WorkerState.DRAINED)


def _held_words(fleet: Fleet, worker_id: str) -> str:
    """What a worker that is to have nothing still has, and where."""
    held = inflight_at(fleet, worker_id)
    if not held:
        return ""
    requests = sum(held.values())
    at = ", ".join(f"{name} {count(number)}" for name, number in held.items())
    return f"{count(requests)} request{'' if requests == 1 else 's'} left: {at}"


def _breaker_words(worker_id: str, breakers: Sequence[BreakerFacts]) -> str:
    """Where a worker isn't let through: `breaker open at gw-1/0, half-open at gw-1/1`."""
    own = [one for one in breakers if one.worker == worker_id]
    told = [f"{one.state.value.replace('_', '-')} at {one.process}" for one in own]
    return f"Breaker {', '.join(told)}" if told else ""


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
        told=row.told,
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
    pool: Pool, entry: WorkerEntry, gauges: WorkerGauges | None, now: datetime
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
        inflight=None,
        up_s=max(0.0, since_s) if entry.state is WorkerState.READY else None,
        address=entry.base_url,
        told=entry.state,
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


def _unchecked(pool: Pool, number: int) -> WorkerRow:
    return WorkerRow(
        id=f"{pool.pk}-{number}",
        number=number,
        name=f"{pool.name}/{number}",
        state=State("Not checked yet", "nodata", "idle"),
        detail="",
        restarts=None,
        inflight=None,
        up_s=None,
        address=pool.addresses[number],
    )


def route_names(row: Pool) -> Sequence[str]:
    """The routes that send to a pool, by themselves or by a rule."""
    return sorted({*(target.route.name for target in row.targets.all()), *names_by_rule(row)})


def names_by_rule(row: Pool) -> Sequence[str]:
    """The routes that send to a pool by a rule."""
    return routes_with_pool_in_rules(row.organisation_id, row.pk)

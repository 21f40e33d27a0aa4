"""The fleet described as a value: what a gateway process knows of its workers when it chooses.

A live gateway keeps the same facts in objects that change; both are asked by the same functions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inference.contract.kinds import WorkerState
from inference.contract.snapshot import PoolRecord
from inference.decisions.breaker import CLOSED, Breaker, Capacity, capacity_of, lets_through
from inference.decisions.breaker import set_aside as without_aside
from inference.decisions.plan import Plan
from inference.decisions.roster import USUAL_CONCURRENCY, USUAL_PREFILL_RATE


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker; a `Candidate` with the state, breaker and wish to be left alone beside it.

    Until `aside_until_s`, on the clock of its other times, it said "not now". `slots` is how many
    requests this process may have under way there, None is no bound.
    """

    id: str
    pool_id: str
    state: WorkerState = WorkerState.READY
    inflight: int = 0
    peers_inflight: int = 0
    prefill_tokens: int = 0
    peers_prefill_tokens: int = 0
    prefill_rate: float = USUAL_PREFILL_RATE
    concurrency: int = USUAL_CONCURRENCY
    kv_used: float | None = None
    first_token_s: float | None = None
    first_token_at_s: float = 0.0
    breaker: Breaker = CLOSED
    aside_until_s: float = 0.0
    slots: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether a further request has to wait for one that is under way."""
        return self.slots is not None and self.inflight >= self.slots


@dataclass(frozen=True, slots=True)
class FleetView:
    """Workers by pool; `now_s` is the present on the clock of their times."""

    pools: Mapping[str, tuple[WorkerView, ...]]
    now_s: float = 0.0

    def of_pool(self, pool_id: str) -> tuple[WorkerView, ...]:
        """The workers of a pool, whatever their state."""
        return self.pools.get(pool_id, ())

    def capacity(self, pool: PoolRecord) -> Capacity[WorkerView]:
        """The workers of a pool that may be sent to now."""
        ready = tuple(one for one in self.of_pool(pool.id) if one.state is WorkerState.READY)
        admitted = tuple(one for one in ready if lets_through(one.breaker, self.now_s))
        capacity = Capacity(ready)
        if len(admitted) < len(ready):
            capacity = capacity_of(ready, admitted, panic_percent=pool.panic_percent)
        return without_aside(capacity, [one for one in capacity.workers if self.is_aside(one)])

    def capacities(self, plan: Plan) -> list[Capacity[WorkerView]]:
        """The same of a plan's targets, in its order."""
        return [self.capacity(planned.pool) for planned in plan.targets]

    def is_aside(self, worker: WorkerView) -> bool:
        """Whether it said "not now" of late."""
        return worker.aside_until_s > self.now_s

    def set_aside(self, plan: Plan) -> tuple[str, ...]:
        """Which ready workers of a plan's pools are passed over for others."""
        return tuple(
            one.id
            for planned in plan.targets
            for one in self.of_pool(planned.pool.id)
            if one.state is WorkerState.READY and self.is_aside(one)
        )


def fleet_view(workers: Iterable[WorkerView], *, now_s: float = 0.0) -> FleetView:
    """These workers as a fleet, in their order."""
    pools: dict[str, list[WorkerView]] = {}
    for worker in workers:
        pools.setdefault(worker.pool_id, []).append(worker)
    return FleetView({name: tuple(found) for name, found in pools.items()}, now_s)

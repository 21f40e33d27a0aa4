"""A pool's breakers as the gateways tell of them now."""

from collections.abc import Sequence

from controlplane.bridge.vitals import Fleet
from controlplane.decisions.breakers import BreakerFacts, breakers_of, last_resort_at, panic_at
from controlplane.models import Pool
from inference.contract.kinds import PoolPower, Provisioner, WorkerState


def breakers_in(fleet: Fleet, pool: Pool) -> Sequence[BreakerFacts]:
    """Those that are not closed."""
    return breakers_of(pool.pk, ((one.process, one.breakers) for one in fleet.gateways))


def panic_in(fleet: Fleet, pool: Pool, breakers: Sequence[BreakerFacts]) -> Sequence[str]:
    """The gateway processes that ignore them, for too few workers would be left."""
    return panic_at(_ready_in(fleet, pool), breakers, percent=pool.panic_percent)


def last_resort_in(fleet: Fleet, pool: Pool, breakers: Sequence[BreakerFacts]) -> Sequence[str]:
    """The gateway processes at which every breaker is open: the pool is sent to last there."""
    return last_resort_at(_ready_in(fleet, pool), breakers, percent=pool.panic_percent)


def _ready_in(fleet: Fleet, pool: Pool) -> frozenset[str]:
    """The workers gateways may send to: an address no check spoke of is taken to be ready."""
    if pool.power != PoolPower.RUNNING:
        return frozenset()
    told = {one.id: one.state for one in fleet.workers or () if one.pool_id == pool.pk}
    ready = {one for one, state in told.items() if state is WorkerState.READY}
    if pool.provisioner == Provisioner.STATIC:
        every = {f"{pool.pk}-{at}" for at in range(len(pool.addresses)) if at not in pool.cordoned}
        ready |= every - told.keys()
    return frozenset(ready)

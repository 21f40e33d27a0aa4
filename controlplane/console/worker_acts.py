"""What can be done to one worker of a pool: drain it, put it back, restart it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from controlplane.console.diffs import Line
from controlplane.console.pages import Action
from controlplane.errors import Conflict
from controlplane.models import Pool
from inference.contract.kinds import PoolPower, Provisioner

DRAIN, PUT_BACK, RESTART = "drain", "put-back", "restart"
VERBS: Mapping[str, str] = {DRAIN: "Drain", PUT_BACK: "Put back", RESTART: "Restart"}

_IN_USE, _DRAINED = "sent requests", "drained"


def acts_of(pool: Pool, number: int) -> Sequence[Action]:
    """The buttons of a worker that the pool wants; none for one that leaves."""
    if pool.power == PoolPower.STOPPED or number >= wanted_in(pool):
        return ()
    found = []
    if number in pool.cordoned:
        found.append(Action(VERBS[PUT_BACK], _url(pool, number, PUT_BACK), icon="play"))
    elif pool.power == PoolPower.RUNNING:
        found.append(Action(VERBS[DRAIN], _url(pool, number, DRAIN), icon="pause"))
    if pool.provisioner != Provisioner.STATIC:
        found.append(Action(VERBS[RESTART], _url(pool, number, RESTART), icon="restart"))
    return found


def _url(pool: Pool, number: int, act: str) -> str:
    return reverse(f"pool-worker-{act}", args=[pool.pk, number])


def wanted_in(pool: Pool) -> int:
    """How many workers the pool wants while it's on."""
    is_static = pool.provisioner == Provisioner.STATIC
    return len(pool.addresses) if is_static else pool.replicas


def values_of(pool: Pool, number: int, act: str) -> Mapping[str, Any]:
    """The values an act sets; raises Conflict where there is nothing to do."""
    if act != PUT_BACK and number >= wanted_in(pool):
        raise Conflict(f"The pool has no worker {number}.")
    if act == RESTART:
        if pool.provisioner == Provisioner.STATIC:
            raise Conflict("The workers of a static pool are started elsewhere.")
        return {"worker_restarts": {str(number): pool.worker_restarts.get(str(number), 0) + 1}}
    if (number in pool.cordoned) == (act == DRAIN):
        state = "drained already" if act == DRAIN else "not drained"
        raise Conflict(f"Worker {number} is {state}.")
    others = {one for one in pool.cordoned if one != number}
    return {"cordoned": sorted(others | {number} if act == DRAIN else others)}


def lines_of_act(pool: Pool, number: int, changes: Mapping[str, Any]) -> Sequence[Line]:
    """What an act changes, of this worker alone."""
    found = []
    if "cordoned" in changes:
        sides = [
            _DRAINED if number in cordoned else _IN_USE
            for cordoned in (pool.cordoned, changes["cordoned"])
        ]
        found.append(Line(f"Worker {number}", *sides))
    if "worker_restarts" in changes:
        counts = [side.get(str(number), 0) for side in (pool.worker_restarts, _restarts(changes))]
        found.append(Line(f"Restarts asked of worker {number}", *(f"{one:,}" for one in counts)))
    return found


def _restarts(changes: Mapping[str, Any]) -> Mapping[str, int]:
    found: Mapping[str, int] = changes["worker_restarts"]
    return found

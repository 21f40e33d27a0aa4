"""What an edit of a pool says of single workers: which are drained, which were restarted how often.

Both outlive the workers they name: one that comes back after fewer replicas is drained as before.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.errors import Invalid
from controlplane.models import Pool
from inference.contract.kinds import Provisioner

MOST_RESTARTS = 2**31 - 1

_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")


def worker_values(pool: Pool, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `cordoned` and `worker_restarts` that an edit names, as they are to be stored.

    A worker that is named anew must be one that the pool wants after the edit. Counts of restarts
    are joined to those there are, and only grow. Raises Invalid at the worker's own place.
    """
    found: dict[str, Any] = {}
    count = _count_of(pool, values)
    if "cordoned" in values:
        found["cordoned"] = _cordoned(pool, values["cordoned"], count)
    if "worker_restarts" in values:
        asked = _restarts(values["worker_restarts"])
        _refuse_restarts(pool, asked, count, provisioner=_value(pool, values, "provisioner"))
        found["worker_restarts"] = grown(pool.worker_restarts, asked)
    return found


def grown(held: Mapping[str, int], asked: Mapping[str, int]) -> dict[str, int]:
    """Both counts of restarts in one, the greater of each worker's."""
    return {
        number: max(held.get(number, 0), asked.get(number, 0))
        for number in sorted({*held, *asked}, key=int)
    }


def _value(pool: Pool, values: Mapping[str, Any], name: str) -> Any:
    return values.get(name, getattr(pool, name))


def _count_of(pool: Pool, values: Mapping[str, Any]) -> int:
    """How many workers the pool wants after the edit, whether it's on or off."""
    if _value(pool, values, "provisioner") == Provisioner.STATIC:
        return len(_value(pool, values, "addresses"))
    return int(_value(pool, values, "replicas"))


def _cordoned(pool: Pool, asked: Sequence[int], count: int) -> list[int]:
    for position, number in enumerate(asked):
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not (0 <= number < count or number in pool.cordoned):
            raise Invalid.field(f"cordoned.{position}", _no_worker(number, count))
    return sorted(set(asked))


def _no_worker(number: object, count: int) -> str:
    if count == 0:
        return "The pool has no workers."
    known = "only worker 0" if count == 1 else f"workers 0 to {count - 1:,}"
    return f"There is no worker {number}: the pool has {known}."


def _restarts(asked: object) -> dict[str, int]:
    if not isinstance(asked, Mapping):
        raise Invalid.field("worker_restarts", "Restarts are counts by worker's number.")
    for number, count in asked.items():
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not _NUMBER.fullmatch(str(number)) or not is_count or not 0 <= count <= MOST_RESTARTS:
            message = "Give a worker's number and how often it was to restart, a whole count."
            raise Invalid.field(f"worker_restarts.{number}", message)
    return {str(number): count for number, count in asked.items()}


def _refuse_restarts(
    pool: Pool, asked: Mapping[str, int], count: int, *, provisioner: object
) -> None:
    for number, restarts in asked.items():
        held = pool.worker_restarts.get(number, 0)
        if number in pool.worker_restarts and restarts == held:
            continue
        place = f"worker_restarts.{number}"
        if restarts < held:
            raise Invalid.field(place, f"It only grows; it is {held} now.")
        if provisioner == Provisioner.STATIC:
            raise Invalid.field(place, "The workers of a static pool are started elsewhere.")
        if int(number) >= count:
            raise Invalid.field(place, _no_worker(number, count))

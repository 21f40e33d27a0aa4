"""The share of a pool's wanted workers that are not ready, in per cent."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.bridge.conditions import condition_in
from controlplane.decisions.pool_conditions import Condition, ConditionKind
from controlplane.selectors.alerts import Place
from controlplane.selectors.pools import list_every_pool

_ON_PURPOSE = (ConditionKind.STOPPED, ConditionKind.DRAINING, ConditionKind.DRAINED)


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    found = {}
    for pool in list_every_pool([place.id for place in places]):
        condition = condition_in(facts.fleet, facts.entries, pool, is_whole=True)
        found[pool.pk] = _share(condition)
    return of_now(grid, {place.id: found.get(place.id) for place in places})


def _share(condition: Condition) -> float | None:
    """What people took out of service is not down."""
    if condition.kind is ConditionKind.UNKNOWN or condition.ready is None:
        return None
    if condition.kind in _ON_PURPOSE or condition.wanted == 0:
        return 0.0
    return 100.0 * max(0, condition.wanted - condition.ready) / condition.wanted

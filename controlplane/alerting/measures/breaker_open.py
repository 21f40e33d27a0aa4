"""How many breakers of a pool's workers are open, over all gateway processes."""

from collections import Counter
from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.selectors.alerts import Place
from inference.contract.kinds import BreakerState


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    if facts.fleet is None or not facts.fleet.gateways:
        return of_now(grid, {place.id: None for place in places})
    counts = Counter(
        worker.rpartition("-")[0]
        for one in facts.fleet.gateways
        for worker, state in one.breakers.items()
        if state is BreakerState.OPEN
    )
    return of_now(grid, {place.id: float(counts[place.id]) for place in places})

"""The share of requests that failed by us or a worker, in per cent."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.alerting.windows import Sum, traffic_values
from controlplane.selectors.alerts import Place

LEAST_REQUESTS = 10
"""Of fewer requests a share says nothing: one that failed would be an outage."""


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    return traffic_values(question, places, grid, _share)


def _share(held: Sum) -> float | None:
    return 100.0 * held.failures / held.requests if held.requests >= LEAST_REQUESTS else None

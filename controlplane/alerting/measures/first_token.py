"""The time to the first token that one stream in twenty exceeds, in ms."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.alerting.windows import Sum, traffic_values
from controlplane.selectors.alerts import Place
from inference.decisions.histograms import percentiles

SHARE = 0.95


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    return traffic_values(question, places, grid, _p95)


def _p95(held: Sum) -> float | None:
    counts = {bucket: count for bucket, count in held.first_token_ms.items() if count}
    return percentiles(counts, (SHARE,))[SHARE]

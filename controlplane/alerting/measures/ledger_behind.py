"""For how long the oldest usage event in the stream has waited for the recorder, in seconds."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.bridge.stream import read_lag_s
from controlplane.selectors.alerts import Place


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    lag_s = read_lag_s()
    return of_now(grid, {place.id: lag_s for place in places})

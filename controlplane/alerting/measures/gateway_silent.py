"""How many gateways that were seen within the last 10 minutes report no more."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.selectors.alerts import Place
from controlplane.selectors.live_rows import read_missing


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    counts = read_missing(grid.moments)
    return {place.id: counts for place in places}

"""The share of a budget that is spent in its present period, in per cent; of each account apart."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.selectors.alerts import Place
from controlplane.selectors.budget_places import used_percent


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    found = used_percent([place.id for place in places], grid.until)
    return of_now(grid, {place.id: found.get(place.id) for place in places})

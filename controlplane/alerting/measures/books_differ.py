"""In how many figures gateways, journals, ledger and roll-ups differed when last compared."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.bridge.books import count_differences
from controlplane.selectors.alerts import Place


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    found = count_differences()
    return of_now(grid, {place.id: None if found is None else float(found) for place in places})

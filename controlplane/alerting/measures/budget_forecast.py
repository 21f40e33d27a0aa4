"""How much of a budget will be spent at the end of its period, in per cent, at its pace so far."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.selectors.alerts import Place
from controlplane.selectors.budget_places import foretold


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    found = foretold([place.id for place in places], grid.until)
    for pk, one in found.items():
        facts.say(pk, one.words)
    return of_now(
        grid, {one.id: found[one.id].percent if one.id in found else None for one in places}
    )

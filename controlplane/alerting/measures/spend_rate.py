"""How unusual the spending of the last hour is: by the same hour of the last 14 days."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.decisions.spending import compare
from controlplane.selectors.alerts import Place
from controlplane.selectors.hourly_spend import read_hours


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    hours = read_hours(question.scope, [place.id for place in places], grid.moments)
    found: dict[str, Sequence[float | None]] = {}
    for place in places:
        compared = [compare(one[0], one[1:]) for one in hours.get(place.id, ())]
        values = [None if one is None else one.deviations for one in compared]
        found[place.id] = values or [None] * grid.steps
        if compared and compared[-1] is not None:
            facts.say(place.id, compared[-1].words)
    return found

"""How unusual the spending of the last hour is: by the same hour of the last 14 days."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.decisions.spending import compare
from controlplane.selectors.alerts import Place
from controlplane.selectors.hourly_spend import read_hours


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    hours = read_hours(question.scope, [place.id for place in places], grid.until)
    found: dict[str, float | None] = {}
    for place in places:
        now, *before = hours.get(place.id, (0,))
        compared = compare(now, before)
        found[place.id] = None if compared is None else compared.deviations
        if compared is not None:
            facts.say(place.id, compared.words)
    return of_now(grid, found)

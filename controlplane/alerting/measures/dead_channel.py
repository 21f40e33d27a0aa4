"""How many channels were switched off because they kept failing."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.selectors.alerts import WHOLE_ID, Place, count_dead_channels


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    counts = count_dead_channels(question.organisation_id)
    everywhere = float(sum(counts.values()))
    return of_now(
        grid,
        {
            place.id: everywhere if place.id == WHOLE_ID else float(counts.get(place.id, 0))
            for place in places
        },
    )

"""What a rule would have done over the last day: its own question, its own decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.registry import REGISTRY
from controlplane.decisions.alert_kinds import TRAITS, AlertKind
from controlplane.decisions.alerts import Stretch, Terms, stretches_of
from controlplane.selectors.alerts import Place

STEP_S = 60
STEPS = 24 * 60
MOST_PLACES = 50
"""Of a rule that watches more, the first by name are looked at."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The alerts of a day by place, the newest first.

    None for a kind whose past nobody keeps. `looked_at` places of `places` were; `unknown` is the
    share of the day and of them that nothing is known of.
    """

    since: datetime
    until: datetime
    fired: Sequence[tuple[Place, Stretch]] | None
    looked_at: int
    places: int
    unknown: float


def preview(question: Question, terms: Terms, now: datetime) -> Preview:
    """Run the last day's looks, a minute apart."""
    until = datetime.fromtimestamp(now.timestamp() // STEP_S * STEP_S, now.tzinfo)
    since = until - timedelta(seconds=STEP_S * STEPS)
    kind = AlertKind(question.kind)
    places = question.places()
    if not TRAITS[kind].has_history:
        return Preview(since, until, None, 0, len(places), 1.0)
    looked_at = places[:MOST_PLACES]
    grid = Grid(until, STEP_S, STEPS)
    values = REGISTRY[kind](question, looked_at, grid, Facts())
    moments = grid.moments
    fired = [
        (place, stretch)
        for place in looked_at
        for stretch in stretches_of(terms, list(zip(moments, values[place.id], strict=True)))
    ]
    fired.sort(key=lambda one: one[1].since, reverse=True)
    blank = sum(value is None for place in looked_at for value in values[place.id])
    asked = len(looked_at) * len(moments)
    return Preview(
        since, until, fired, len(looked_at), len(places), blank / asked if asked else 1.0
    )

"""How many times too fast a route's objectives are missed, in the window and in a twelfth of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.alerting.windows import Sum, traffic_told
from controlplane.decisions.alert_kinds import seconds_words
from controlplane.decisions.service_levels import (
    SHORT_SHARE,
    Burn,
    Objectives,
    Seen,
    burn_of,
    burn_words,
)
from controlplane.selectors.alerts import Place
from controlplane.selectors.service_levels import objectives_of


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    objectives = objectives_of([place.id for place in places])
    short_s = question.window_s // SHORT_SHARE
    now = Grid(grid.until)
    long, short = (
        traffic_told(replace(question, window_s=length), places, now, _seen_at)
        for length in (question.window_s, short_s)
    )
    found: dict[str, float | None] = {}
    for place in places:
        promised, before, after = objectives.get(place.id), long[place.id][0], short[place.id][0]
        burn = None
        if promised is not None and before is not None and after is not None:
            burn = burn_of(promised, before, after)
        _say(facts, place, burn, promised, (question.window_s, short_s))
        found[place.id] = None if burn is None else burn.rate
    return of_now(grid, found)


def _seen_at(place: Place) -> Callable[[Sum], Seen]:
    return lambda held: Seen(held.requests, held.failures, dict(held.first_token_ms))


def _say(
    facts: Facts,
    place: Place,
    burn: Burn | None,
    promised: Objectives | None,
    lengths: tuple[int, int],
) -> None:
    if burn is not None and promised is not None:
        long, short = map(seconds_words, lengths)
        facts.say(place.id, burn_words(burn, promised, long, short))

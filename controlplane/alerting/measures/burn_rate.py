"""How many times too fast a route's objectives are missed, in the window and in a twelfth of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from controlplane.alerting.base import Facts, Grid, Question, Values
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
    long, short = (
        traffic_told(replace(question, window_s=length), places, grid, _seen_at)
        for length in (question.window_s, short_s)
    )
    found: dict[str, Sequence[float | None]] = {}
    for place in places:
        promised = objectives.get(place.id)
        pairs = zip(long[place.id], short[place.id], strict=True)
        burns = [_burn(promised, *pair) for pair in pairs]
        _say(facts, place, burns[-1], promised, (question.window_s, short_s))
        found[place.id] = [None if burn is None else burn.rate for burn in burns]
    return found


def _burn(promised: Objectives | None, before: Seen | None, after: Seen | None) -> Burn | None:
    if promised is None or before is None or after is None:
        return None
    return burn_of(promised, before, after)


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

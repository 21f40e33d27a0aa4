"""How many gateways report no more that did within the last hour, and did not sign off.

One that is gone for longer is forgotten on purpose: nobody can tell it from one that was taken away
without being stopped. The end of its alert says so.
"""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.bridge.vitals import read_silences
from controlplane.decisions.propagation import MISSED_S, Silences
from controlplane.selectors.alerts import Place
from controlplane.selectors.live_rows import read_missing


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    counts = [] if grid.steps == 1 else list(read_missing(grid.moments))[:-1]
    found = read_silences()
    now = None if found is None else float(len(found.silent))
    if found is not None:
        for place in places:
            facts.say(place.id, words_of(found))
    return {place.id: [*counts, now] for place in places}


def words_of(found: Silences) -> str:
    """Who is silent; once nobody is, who came back and who was given up."""
    if found.silent:
        return f"Silent: {', '.join(found.silent)}."
    if found.forgotten:
        named = ", ".join(found.forgotten)
        return (
            f"Forgotten, not back: {named} said nothing for {MISSED_S // 60} min. It is watched"
            " again once it reports."
        )
    return "All gateways report, or were stopped in order."

"""The share of a route's checked hits by meaning that were false, in per cent."""

from collections.abc import Sequence
from datetime import timedelta

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.decisions.cache_calibration import LEAST_CHECKS, rate_from
from controlplane.selectors.alerts import Place
from controlplane.selectors.cache_usage import list_checks_of_routes


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    since = grid.until - timedelta(seconds=question.window_s)
    checks = list_checks_of_routes([place.id for place in places], since)
    found: dict[str, float | None] = {}
    for place in places:
        rate = rate_from(checks.get(place.id, {}), 0)
        is_known = rate.checks >= LEAST_CHECKS and rate.share is not None
        found[place.id] = 100.0 * (rate.share or 0.0) if is_known else None
        if is_known:
            facts.say(
                place.id,
                f"{rate.false_hits} of {rate.checks} checked hits were false, "
                f"{100 * rate.low:.1f} to {100 * rate.high:.1f} % with 95 % confidence",
            )
    return of_now(grid, found)

"""The longest that a request waited for a worker of a pool with room, in seconds."""

from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.alerting.windows import bins_of, stretch_of
from controlplane.decisions.live_peaks import PeakKind
from controlplane.selectors.alerts import Place
from controlplane.selectors.live_rows import read_covered, read_peaks


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    stretch = stretch_of(question.window_s, grid)
    (covered,) = read_covered([stretch])
    (peaks,) = read_peaks([place.id for place in places], [stretch])
    windows = list(bins_of(question.window_s, grid))
    found = {}
    for place in places:
        mine = peaks.get((PeakKind.OLDEST_WAIT_MS.value, place.id), {})
        found[place.id] = [
            # no row is no wait, but only where a gateway reported
            max((mine[one].value for one in window if one in mine), default=0.0) / 1_000
            if any(covered.get(one) for one in window)
            else None
            for window in windows
        ]
    return found

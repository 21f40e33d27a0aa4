"""Windows that slide over bins of live rows, one a moment: each bin is read once."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from controlplane.alerting.base import Grid, Question, Values
from controlplane.decisions.live_series import Tally
from controlplane.selectors.alerts import Place
from controlplane.selectors.live_rows import Stretch, read_newest, read_traffic_by

Told = TypeVar("Told")


@dataclass(slots=True)
class Sum:
    """What a window holds: requests, failed ones, and times to the first token counted."""

    requests: int = 0
    failures: int = 0
    first_token_ms: Counter[int] = field(default_factory=Counter)

    def add(self, tally: Tally, sign: int) -> None:
        self.requests += sign * tally.requests
        self.failures += sign * sum(tally.failures.values())
        for bucket, count in tally.first_token_ms.items():
            self.first_token_ms[bucket] += sign * count


LONGEST_FINE_S = 3_600
"""Windows up to this are read from fine rows, which are kept twice as long; others from folded
ones, whose first bucket may begin a little before the window."""


def stretch_of(window_s: int, grid: Grid) -> Stretch:
    """The rows that the windows of a grid need; a single moment's are read whole."""
    length = timedelta(seconds=window_s + grid.step_s * (grid.steps - 1))
    since = grid.until - length
    if grid.steps == 1:
        rungs = read_newest(grid.until).rungs if window_s > LONGEST_FINE_S else ()
        return Stretch(since, grid.until, None, rungs)
    rungs = read_newest(grid.until).rungs_for(grid.step_s)
    return Stretch(since, grid.until, grid.step_s, rungs)


def bins_of(window_s: int, grid: Grid) -> Iterator[range]:
    """For each moment the numbers of the bins in its window."""
    if grid.steps == 1:
        yield range(1)
        return
    width = max(1, window_s // grid.step_s)
    for at in grid.moments:
        end = int(at.timestamp()) // grid.step_s
        yield range(end - width, end)


def traffic_values(
    question: Question,
    places: Sequence[Place],
    grid: Grid,
    tell: Callable[[Sum], float | None],
) -> Values:
    """What is told of each place's traffic in the window of each moment."""
    return traffic_told(question, places, grid, lambda place: tell)


def traffic_told(
    question: Question,
    places: Sequence[Place],
    grid: Grid,
    tell_of: Callable[[Place], Callable[[Sum], Told]],
) -> Mapping[str, Sequence[Told | None]]:
    """The same, where what is told of a sum depends on the place."""
    stretch = stretch_of(question.window_s, grid)
    found = read_traffic_by(
        question.scope, question.organisation_id, [place.id for place in places], stretch
    )
    windows = list(bins_of(question.window_s, grid))
    return {place.id: _slid(found.get(place.id, {}), windows, tell_of(place)) for place in places}


def _slid(
    tallies: Mapping[int, Tally],
    windows: Sequence[range],
    tell: Callable[[Sum], Told],
) -> Sequence[Told | None]:
    if not tallies:
        return [None] * len(windows)
    held, now = Sum(), range(0)
    values: list[Told | None] = []
    for window in windows:
        for number in range(now.start, min(now.stop, window.start)):
            if number in tallies:
                held.add(tallies[number], -1)
        for number in range(max(now.stop, window.start), window.stop):
            if number in tallies:
                held.add(tallies[number], 1)
        now = window
        values.append(tell(held))
    return values

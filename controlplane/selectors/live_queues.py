"""Queues and degradation as live pages show them, made of the peaks that were read in bins.

A bucket that no gateway reported is a gap; in one they reported and nothing was written, there was
none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controlplane.decisions.live import FINE_S
from controlplane.decisions.live_peaks import PeakKind
from controlplane.models import LivePeak, Route
from controlplane.selectors.access import Access
from controlplane.selectors.live_figures import Lines, Values
from controlplane.selectors.live_rows import Peaks


@dataclass(frozen=True, slots=True)
class QueueSeries:
    """Who waits in the gateways for a worker of one pool: the most at once, a value a bucket.

    One that could go to several pools counts at its first. `oldest_wait_ms` is the longest that
    anybody had waited. The `…_now` are of the newest bucket, None if no gateway has reported of
    late.
    """

    key: str
    label: str
    waiting: Values
    oldest_wait_ms: Values
    waiting_now: int | None
    oldest_wait_ms_now: float | None


@dataclass(frozen=True, slots=True)
class LadderSeries:
    """How many steps of degradation a route had taken at most, a value a bucket.

    `names` are all its steps in their order. `now` is of the newest bucket, None if no gateway has
    reported of late; `since` is when it came to that, None at 0.
    """

    key: str
    label: str
    names: Sequence[str]
    steps: Values
    now: int | None
    since: datetime | None

    @property
    def taken(self) -> Sequence[str]:
        """The steps that are in force."""
        return self.names[: self.now or 0]


@dataclass(frozen=True, slots=True)
class PeakLines:
    """Makes the series of queues and ladders of one span.

    `newest` are the peaks of the newest bucket, as bin 0; `is_told` is whether any gateway has
    reported of late.
    """

    lines: Lines
    peaks: Peaks
    newest: Peaks
    is_told: bool

    def queues(self, names: Mapping[str, str]) -> Sequence[QueueSeries]:
        """A series a pool, by name."""
        found = [
            QueueSeries(
                key,
                name,
                self._values(PeakKind.WAITING, key),
                self._values(PeakKind.OLDEST_WAIT_MS, key),
                self._now(PeakKind.WAITING, key),
                self._now(PeakKind.OLDEST_WAIT_MS, key),
            )
            for key, name in names.items()
        ]
        return sorted(found, key=lambda one: (one.label, one.key))

    def ladders(self, routes: Iterable[tuple[str, str, Sequence[str]]]) -> Sequence[LadderSeries]:
        """A series a route of this id, name and steps, in their order."""
        found = []
        for key, name, steps in routes:
            newest = self.newest.get((PeakKind.STEPS, key), {}).get(0)
            now = self._now(PeakKind.STEPS, key)
            since = newest.since if newest is not None and now else None
            values = self._values(PeakKind.STEPS, key)
            found.append(LadderSeries(key, name, tuple(steps), values, now, since))
        return found

    def _values(self, kind: PeakKind, key: str) -> Values:
        """0 where gateways reported and there was none."""
        known, covered = self.peaks.get((kind, key), {}), self.lines.covered
        return tuple(
            known[number].value if number in known else 0 if covered.get(number, 0.0) > 0 else None
            for number in self.lines.bins
        )

    def _now(self, kind: PeakKind, key: str) -> Any:
        newest = self.newest.get((kind, key), {}).get(0)
        if newest is None:
            return 0 if self.is_told else None
        return newest.value if kind is PeakKind.OLDEST_WAIT_MS else round(newest.value)


_FRESH = timedelta(seconds=2 * FINE_S)


@dataclass(frozen=True, slots=True)
class StepsNow:
    """The steps of degradation in force at a route, and since when they are these."""

    names: Sequence[str]
    since: datetime | None


def get_steps(access: Access, route: Route, now: datetime) -> StepsNow | None:
    """What a route serves less well by now; None if by nothing, or for a narrower role."""
    if not route.degradation or not access.reads_organisation(route.organisation_id):
        return None
    rows = LivePeak.objects.filter(
        resolution_s=FINE_S, kind=PeakKind.STEPS.value, subject_id=route.pk, at__gt=now - _FRESH
    )
    newest = rows.order_by("-at").first()
    if newest is None:
        return None
    return StepsNow(route.degradation[: round(newest.value)], newest.since)

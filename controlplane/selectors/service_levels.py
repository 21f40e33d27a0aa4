"""How routes keep their objectives: read from live figures, as far back as those are kept."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.decisions.alert_kinds import AlertScope
from controlplane.decisions.live_series import Tally
from controlplane.decisions.service_levels import (
    PERIOD_DAYS,
    SHORT_SHARE,
    Burn,
    Missed,
    Objectives,
    Seen,
    burn_of,
    misses_of,
)
from controlplane.models import Route
from controlplane.selectors.live_rows import Stretch, read_newest, read_traffic_by
from inference.decisions.histograms import percentiles

BURN_WINDOW = timedelta(hours=1)
_SHARES = (0.5, 0.99)


def objectives_of(ids: Collection[str]) -> Mapping[str, Objectives]:
    """What these routes promise."""
    return {row.pk: objectives(row) for row in Route.objects.filter(pk__in=list(ids))}


def objectives(route: Route) -> Objectives:
    """What one route promises."""
    return Objectives(
        route.objective_availability_percent,
        route.objective_first_token_p50_ms,
        route.objective_first_token_p99_ms,
    )


@dataclass(frozen=True, slots=True)
class Level:
    """How one route has kept its objectives for 30 days, and how fast it misses them now.

    `missed` leaves out what too little is known of. First tokens are in ms, None if too few.
    """

    route: Route
    requests: int
    failures: int
    missed: Sequence[Missed]
    p50_ms: float | None
    p99_ms: float | None
    burn: Burn | None

    @property
    def availability_percent(self) -> float | None:
        """None where nobody asked."""
        return 100 * (1 - self.failures / self.requests) if self.requests else None

    @property
    def left_percent(self) -> float | None:
        """The least that is left of an error budget, None where nothing is known."""
        return min((one.left_percent for one in self.missed), default=None)


def read_levels(routes: Sequence[Route], now: datetime) -> Sequence[Level]:
    """How each of these routes of one organisation keeps its objectives."""
    if not routes:
        return ()
    rungs = read_newest(now).rungs
    month, long, short = (
        _seen(routes, Stretch(now - length, now, None, rungs))
        for length in (timedelta(days=PERIOD_DAYS), BURN_WINDOW, BURN_WINDOW / SHORT_SHARE)
    )
    return [_level(one, month[one.pk], long[one.pk], short[one.pk]) for one in routes]


def _seen(routes: Sequence[Route], stretch: Stretch) -> Mapping[str, Seen]:
    ids = [one.pk for one in routes]
    found = read_traffic_by(AlertScope.ROUTE.value, routes[0].organisation_id, ids, stretch)
    tallies = {pk: found.get(pk, {}).get(0, Tally()) for pk in ids}
    return {
        pk: Seen(one.requests, sum(one.failures.values()), one.first_token_ms)
        for pk, one in tallies.items()
    }


def _level(route: Route, month: Seen, long: Seen, short: Seen) -> Level:
    promised = objectives(route)
    told = percentiles(month.first_token_ms, _SHARES)
    return Level(
        route=route,
        requests=month.requests,
        failures=month.failures,
        missed=misses_of(promised, month),
        p50_ms=told[0.5],
        p99_ms=told[0.99],
        burn=burn_of(promised, long, short),
    )

"""Live figures: what the fleet has said of itself, by bucket of time, as pages and API show it.

Read from what the sampler wrote, never from the ledger's rows. A bucket that no gateway reported is
a gap: its values are None. A bucket they reported without requests has 0 requests and no
percentiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from zoneinfo import ZoneInfo

from controlplane.decisions.live import FINE_S, MINUTE_S, SECOND_S
from controlplane.errors import Invalid, NotAllowed, NotFound
from controlplane.models import Organisation, Pool, UsageDay
from controlplane.selectors.access import Access
from controlplane.selectors.cache_usage import get_saved_since
from controlplane.selectors.live_figures import (
    PERCENTILE_WINDOW_S,
    Coverage,
    Lines,
    Span,
    Summary,
    Tiles,
    TrafficSeries,
    Values,
    WorkerSeries,
    priced_costs,
    summed,
)
from controlplane.selectors.live_queues import LadderSeries, PeakLines, QueueSeries
from controlplane.selectors.live_rows import (
    Newest,
    Stretch,
    read_covered,
    read_newest,
    read_peaks,
    read_traffic,
    read_workers,
)
from controlplane.selectors.routes import list_ladders, list_routes, pools_of
from controlplane.selectors.spend import get_month_to_date

__all__ = [
    "LIVE_BUCKETS",
    "NO_POOL",
    "WINDOWS",
    "Coverage",
    "LadderSeries",
    "LiveView",
    "QueueSeries",
    "Span",
    "Summary",
    "TrafficSeries",
    "Values",
    "WorkerSeries",
    "get_live",
    "newest",
    "priced_costs",
    "span_of",
]

WINDOWS: Mapping[str, tuple[int, int]] = {
    "5m": (300, 5),
    "15m": (900, 15),
    "1h": (3_600, 60),
    "6h": (21_600, 300),
    "24h": (86_400, 900),
    "7d": (604_800, 3_600),
}
"""Length and bucket, in seconds; each window has few enough points for any chart."""

LIVE_BUCKETS = 3
"""A live message carries this many of the newest buckets whole."""

NO_POOL = "Refused, no pool"

# fine rows live two hours; a window that needs older ones would end in the middle of a picture
_FINE_READ_S = 6_900
_TILES_OLDEST_S = 300
_MINUTE = timedelta(seconds=MINUTE_S)
_GAUGES_FRESH = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class LiveView:
    """Everything the live panels of one scope show.

    `at` are the buckets' beginnings. `total` is all traffic of the scope, `pools` the same by pool,
    most requests first, `workers` those of the scope's pools, `queues` who waits for each of these
    pools, `ladders` the routes that degrade and may send there. `covered` tells the share of each
    bucket that any gateway reported. `month_to_date_nanousd` is the ledger's, in the organisation's
    zone, None for a scope that is one pool or route, and if nothing of what was charged has a
    price; so is `saved_today_nanousd`, what caches saved.
    """

    span: Span
    at: Sequence[datetime]
    covered: Sequence[float]
    coverage: Coverage
    total: TrafficSeries
    pools: Sequence[TrafficSeries]
    workers: Sequence[WorkerSeries]
    summary: Summary
    pool_summaries: Mapping[str, Summary]
    percentile_window_s: int
    month_to_date_nanousd: int | None
    queues: Sequence[QueueSeries] = ()
    ladders: Sequence[LadderSeries] = ()
    saved_today_nanousd: int | None = None


def span_of(window: str, now: datetime, *, until: datetime | None = None) -> Span:
    """The buckets of a window that ends now, or ended at `until`; raises Invalid if unknown.

    What is older than fine rows are kept is shown by the minute at the finest.
    """
    if window not in WINDOWS:
        raise Invalid.field("window", f"Choose one of {', '.join(WINDOWS)}.")
    length_s, bucket_s = WINDOWS[window]
    is_past = until is not None and until < now
    end_s = until.timestamp() if until is not None and is_past else now.timestamp()
    if end_s - length_s - PERCENTILE_WINDOW_S < now.timestamp() - _FINE_READ_S:
        bucket_s = max(bucket_s, MINUTE_S)
    # the bucket that now lies in is shown, even if it only begins
    whole = ceil(end_s / bucket_s) if is_past else int(end_s // bucket_s) + 1
    last_s = whole * bucket_s
    return Span(_time(last_s - length_s), _time(last_s), bucket_s)


def newest(span: Span, buckets: int = LIVE_BUCKETS) -> Span:
    """The last few buckets of a span."""
    since = span.until - timedelta(seconds=buckets * span.bucket_s)
    return Span(max(span.since, since), span.until, span.bucket_s)


def get_live(
    access: Access,
    organisation: Organisation,
    span: Span,
    *,
    pool_id: str | None = None,
    route_id: str | None = None,
) -> LiveView:
    """The live figures of an organisation, or of one of its pools or routes; raises NotFound.

    A route's workers serve other routes as well, so none of theirs are among its figures.
    Raises NotAllowed for a caller whose roles are of its teams or projects only.
    """
    _check(access, organisation)
    names = _names_of_pools(access, organisation, pool_id, route_id)
    recent = read_newest(span.until)
    series, tail = _series_stretch(span, recent), _tail_stretches(span, recent)
    covered, covered_minute = read_covered([series, tail.minute])
    traffic, before, minute = read_traffic(
        organisation.pk,
        [series, tail.before, tail.minute],
        pool_id=pool_id,
        route_id=route_id,
    )
    measured = list(names) if route_id is None else []
    workers, last_workers = read_workers(measured, [series, tail.seconds])
    routes = list_ladders(access, organisation, pool_id=pool_id, route_id=route_id)
    peaks, peaks_now = read_peaks(
        [*names, *(route_id for route_id, _, _ in routes)], [series, tail.newest]
    )
    own = dict(names)
    names |= _names_of_others(access, organisation, {*traffic, *before, *minute} - set(names))
    tiles = Tiles(covered_minute.get(0, 0.0), before, minute, list(last_workers.values()))
    spent = saved = None
    if pool_id is None and route_id is None:
        spent = _spent(access, organisation, span, recent)
        saved = _saved(access, organisation, span, recent)
    lines = Lines(span, covered)
    queued = PeakLines(lines, peaks, peaks_now, is_told=covered_minute.get(0, 0.0) > 0)
    return LiveView(
        span=span,
        at=tuple(_time(number * span.bucket_s) for number in lines.bins),
        covered=tuple(min(1.0, covered.get(one, 0.0) / span.bucket_s) for one in lines.bins),
        coverage=Coverage.of_row(recent.shown),
        total=lines.traffic("", "All", summed(traffic)),
        pools=lines.pools(traffic, names),
        workers=lines.workers(workers, names),
        summary=tiles.summary(None),
        pool_summaries={key: tiles.summary(key) for key in names},
        percentile_window_s=max(span.bucket_s, PERCENTILE_WINDOW_S),
        month_to_date_nanousd=spent,
        queues=queued.queues(own),
        ladders=queued.ladders(routes),
        saved_today_nanousd=saved,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _check(access: Access, organisation: Organisation) -> None:
    if access.reads_organisation(organisation.pk):
        return
    if any(grant.organisation_id == organisation.pk for grant in access.grants):
        raise NotAllowed("Live figures are for roles of the whole organisation.")
    raise NotFound


def _names_of_pools(
    access: Access, organisation: Organisation, pool_id: str | None, route_id: str | None
) -> dict[str, str]:
    """The pools of the scope by id: of a route those that it may send to."""
    rows = access.visible(Pool.objects.filter(organisation=organisation))
    if route_id is not None:
        route = list_routes(access).filter(organisation=organisation, pk=route_id).first()
        if route is None:
            raise NotFound
        rows = rows.filter(pk__in=pools_of(route))
    if pool_id is None:
        return dict(rows.values_list("id", "name"))
    found = dict(rows.filter(pk=pool_id).values_list("id", "name"))
    if not found:
        raise NotFound
    return found


def _names_of_others(
    access: Access, organisation: Organisation, pool_ids: set[str]
) -> dict[str, str]:
    """The names of pools beyond the scope's, of those that are no more what the ledger last called
    them; "" is traffic that went to none."""
    unnamed = {key: NO_POOL if key == "" else key for key in pool_ids}
    gone = sorted(pool_ids - {""})
    if not gone:
        return unnamed
    days = UsageDay.objects.filter(organisation_id=organisation.pk, dimension="pool")
    known = access.visible_organisation_wide(days).filter(value__in=gone).exclude(label="")
    latest = known.order_by("value", "-day").distinct("value")
    there = access.visible(Pool.objects.filter(organisation=organisation, pk__in=gone))
    return (
        unnamed | dict(latest.values_list("value", "label")) | dict(there.values_list("id", "name"))
    )


def _series_stretch(span: Span, recent: Newest) -> Stretch:
    """The span and what its first percentiles reach back to."""
    before = max(0, PERCENTILE_WINDOW_S - span.bucket_s)
    since = span.since - timedelta(seconds=before)
    return Stretch(since, span.until, span.bucket_s, recent.rungs_for(span.bucket_s))


@dataclass(frozen=True, slots=True)
class _Tail:
    """What tiles are of: the last minute, four before it, the last seconds for gauges, and the
    newest bucket alone."""

    before: Stretch
    minute: Stretch
    seconds: Stretch
    newest: Stretch


def _tail_stretches(span: Span, recent: Newest) -> _Tail:
    """The tail, as fine as it is kept; empty if all that was sampled is long ago."""
    shown = recent.shown
    oldest = span.until - timedelta(seconds=max(_TILES_OLDEST_S, span.bucket_s))
    if shown is None or shown.at < oldest:
        nothing = Stretch(span.until, span.until, None)
        return _Tail(nothing, nothing, nothing, nothing)
    is_fine = shown.resolution_s == FINE_S
    end = shown.at + timedelta(seconds=shown.resolution_s)
    since, minute = end - timedelta(seconds=PERCENTILE_WINDOW_S), end - _MINUTE
    seconds = shown.as_of - _GAUGES_FRESH if is_fine else minute
    rungs = () if is_fine else ((MINUTE_S, end),)
    return _Tail(
        Stretch(since, minute, None, rungs),
        Stretch(minute, end, None, rungs),
        Stretch(seconds, end, SECOND_S, rungs),
        Stretch(shown.at, end, None, rungs),
    )


def _saved(access: Access, organisation: Organisation, span: Span, recent: Newest) -> int | None:
    """What caches saved on the day of the newest bucket, by the ledger; of a past it isn't told."""
    if recent.is_past:
        return None
    local = (span.until - timedelta(seconds=span.bucket_s)).astimezone(
        ZoneInfo(organisation.time_zone)
    )
    since = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return get_saved_since(access, organisation, since)


def _spent(access: Access, organisation: Organisation, span: Span, recent: Newest) -> int | None:
    """The month to date: until the last sample, or into the last bucket if that is longer ago."""
    end = span.until - timedelta(seconds=span.bucket_s)
    if recent.shown is not None:
        end = max(end, recent.shown.as_of)
    return get_month_to_date(access, organisation, end, is_past=recent.is_past)

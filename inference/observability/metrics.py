"""The gateway's metrics, on a registry that is passed in. Labels are bounded by configuration.

What every request counts is counted in plain numbers, which are made metrics of when they are read.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from inference.contract.kinds import Outcome
from inference.observability.cache_metrics import CacheMetrics
from inference.observability.experiment_metrics import ExperimentMetrics
from inference.observability.helper_metrics import HelperMetrics, HelperReading
from inference.observability.queue_metrics import QueueMetrics

NO_ROUTE = "none"
"""The route label of requests that never got to one; what callers write is no label."""

_FIRST_TOKEN_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
_DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class _Histogram:
    """Observations by bucket; the last bucket has no bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, route_id: str) -> None:
        bounds = (*map(str, self._bounds), "+Inf")
        buckets = list(zip(bounds, accumulate(self._counts), strict=True))
        family.add_metric((route_id,), buckets, self._sum)


class _RouteCounts:
    """What one route's requests came to."""

    __slots__ = ("duration", "ended", "first_token")

    def __init__(self) -> None:
        self.ended: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.duration = _Histogram(_DURATION_BUCKETS_S)
        self.first_token = _Histogram(_FIRST_TOKEN_BUCKETS_S)


@dataclass(frozen=True, slots=True)
class _OpenBreakers:
    """Asks, whenever it is collected, how many breakers of each pool are not closed."""

    read: Callable[[], Mapping[str, int]]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "headworks_gateway_breakers_open",
            "Workers of a pool whose breaker is not closed, each as often as processes find so",
            labels=("pool",),
        )
        for pool_id, count in self.read().items():
            family.add_metric((pool_id,), count)
        yield family


class GatewayMetrics:
    """Counts of one gateway process. Its vitals read `arrivals_total`, and `requests` under way."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.arrivals_total = 0
        self.requests = 0
        self._routes: dict[str, _RouteCounts] = {}
        registry.register(self)
        self._spared = Counter(
            "headworks_tokens_not_generated",
            "Tokens that requests cut short had asked for and didn't get: an upper bound",
            ("route",),
            registry=registry,
        )
        self._lost = Counter(
            "headworks_gateway_events_lost",
            "Openings and ends that could not be written",
            registry=registry,
        )
        self._registry = registry
        self.queue = QueueMetrics(registry)
        self.experiments = ExperimentMetrics(registry)
        self.caches = CacheMetrics(registry)
        self._failed_attempts = Counter(
            "headworks_gateway_failed_attempts",
            "Attempts that a worker failed, whatever became of the request",
            ("pool", "code"),
            registry=registry,
        )
        self._retries = Counter(
            "headworks_gateway_retries",
            "Further attempts: made, or refused by the route's retry budget",
            ("route", "result"),
            registry=registry,
        )
        self._openings = Counter(
            "headworks_gateway_breaker_openings",
            "How often a worker's breaker opened",
            ("pool",),
            registry=registry,
        )
        self._panics = Counter(
            "headworks_gateway_panic_attempts",
            "Attempts made while too few of a pool's breakers were closed to heed them",
            ("pool",),
            registry=registry,
        )

    def arrived(self) -> None:
        """Count a request that came in."""
        self.arrivals_total += 1
        self.requests += 1

    def ended(
        self, route_id: str | None, outcome: Outcome, *, total_s: float, first_token_s: float | None
    ) -> None:
        """Count how it ended; every arrival ends once."""
        route = self._routes.get(route_id or NO_ROUTE)
        if route is None:
            route = self._routes[route_id or NO_ROUTE] = _RouteCounts()
        self.requests -= 1
        route.ended[outcome] += 1
        route.duration.observe(total_s)
        if first_token_s is not None:
            route.first_token.observe(first_token_s)

    def collect(self) -> Iterator[Metric]:
        """Give what every request counts as metrics; the registry asks for it."""
        requests = CounterMetricFamily(
            "headworks_gateway_requests",
            "Requests by how they ended",
            labels=("route", "outcome"),
        )
        first_token = HistogramMetricFamily(
            "headworks_gateway_first_token_seconds",
            "From a request's arrival to the first content of its stream",
            labels=("route",),
        )
        duration = HistogramMetricFamily(
            "headworks_gateway_duration_seconds",
            "From a request's arrival to its end",
            labels=("route",),
        )
        for route_id, route in self._routes.items():
            for outcome, count in route.ended.items():
                requests.add_metric((route_id, outcome.value), count)
            route.first_token.add_to(first_token, route_id)
            route.duration.add_to(duration, route_id)
        yield requests
        yield GaugeMetricFamily("headworks_gateway_inflight", "Requests under way", self.requests)
        yield first_token
        yield duration

    def spared(self, route_id: str, tokens: int) -> None:
        """Count the most tokens that a request which was cut short would have had generated."""
        self._spared.labels(route_id).inc(tokens)

    def lost_event(self) -> None:
        """Count an event that could not be written."""
        self._lost.inc()

    def failed_attempt(self, pool_id: str, code: str) -> None:
        """Count an attempt that a worker failed."""
        self._failed_attempts.labels(pool_id, code).inc()

    def retried(self, route_id: str) -> None:
        """Count a further attempt."""
        self._retries.labels(route_id, "made").inc()

    def refused_retry(self, route_id: str) -> None:
        """Count a further attempt that the retry budget didn't allow."""
        self._retries.labels(route_id, "refused").inc()

    def breaker_opened(self, pool_id: str) -> None:
        """Count a breaker that opened."""
        self._openings.labels(pool_id).inc()

    def panicked(self, pool_id: str) -> None:
        """Count an attempt for which breakers were ignored."""
        self._panics.labels(pool_id).inc()

    def watch_helper(self, read: Callable[[], HelperReading]) -> None:
        """Have what became of questions to the helper asked of this whenever metrics are read."""
        self._registry.register(HelperMetrics(read))

    def watch_breakers(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Have the number of open breakers by pool asked of this whenever metrics are read."""
        self._registry.register(_OpenBreakers(read))

"""The gateway's metrics, on a registry that is passed in. Labels are bounded by configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from inference.contract.kinds import Outcome

NO_ROUTE = "none"
"""The route label of requests that never got to one; what callers write is no label."""

_FIRST_TOKEN_BUCKETS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
_DURATION_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


@dataclass(frozen=True, slots=True)
class _RouteMetrics:
    """One route's series, looked up once: finding them by label costs more than counting."""

    ended: Mapping[Outcome, Counter]
    duration: Histogram
    first_token: Histogram


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
        self._routes: dict[str, _RouteMetrics] = {}
        self._requests = Counter(
            "headworks_gateway_requests",
            "Requests by how they ended",
            ("route", "outcome"),
            registry=registry,
        )
        self._inflight = Gauge(
            "headworks_gateway_inflight", "Requests under way", registry=registry
        )
        self._first_token = Histogram(
            "headworks_gateway_first_token_seconds",
            "From a request's arrival to the first content of its stream",
            ("route",),
            registry=registry,
            buckets=_FIRST_TOKEN_BUCKETS_S,
        )
        self._duration = Histogram(
            "headworks_gateway_duration_seconds",
            "From a request's arrival to its end",
            ("route",),
            registry=registry,
            buckets=_DURATION_BUCKETS_S,
        )
        self._lost = Counter(
            "headworks_gateway_events_lost",
            "Openings and ends that could not be written",
            registry=registry,
        )
        self._registry = registry
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
        self._inflight.inc()

    def ended(
        self, route_id: str | None, outcome: Outcome, *, total_s: float, first_token_s: float | None
    ) -> None:
        """Count how it ended; every arrival ends once."""
        route = self._of_route(route_id or NO_ROUTE)
        self.requests -= 1
        self._inflight.dec()
        route.ended[outcome].inc()
        route.duration.observe(total_s)
        if first_token_s is not None:
            route.first_token.observe(first_token_s)

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

    def watch_breakers(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Have the number of open breakers by pool asked of this whenever metrics are read."""
        self._registry.register(_OpenBreakers(read))

    def _of_route(self, route_id: str) -> "_RouteMetrics":
        known = self._routes.get(route_id)
        if known is None:
            known = self._routes[route_id] = _RouteMetrics(
                ended={one: self._requests.labels(route_id, one.value) for one in Outcome},
                duration=self._duration.labels(route_id),
                first_token=self._first_token.labels(route_id),
            )
        return known

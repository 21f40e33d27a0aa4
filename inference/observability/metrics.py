"""The gateway's metrics, on a registry that is passed in. Labels are bounded by configuration."""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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


class GatewayMetrics:
    """Counts of one gateway process. `arrivals_total` is read by its vitals too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.arrivals_total = 0
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

    def arrived(self) -> None:
        """Count a request that came in."""
        self.arrivals_total += 1
        self._inflight.inc()

    def ended(
        self, route_id: str | None, outcome: Outcome, *, total_s: float, first_token_s: float | None
    ) -> None:
        """Count how it ended; every arrival ends once."""
        route = self._of_route(route_id or NO_ROUTE)
        self._inflight.dec()
        route.ended[outcome].inc()
        route.duration.observe(total_s)
        if first_token_s is not None:
            route.first_token.observe(first_token_s)

    def lost_event(self) -> None:
        """Count an event that could not be written."""
        self._lost.inc()

    def _of_route(self, route_id: str) -> "_RouteMetrics":
        known = self._routes.get(route_id)
        if known is None:
            known = self._routes[route_id] = _RouteMetrics(
                ended={one: self._requests.labels(route_id, one.value) for one in Outcome},
                duration=self._duration.labels(route_id),
                first_token=self._first_token.labels(route_id),
            )
        return known

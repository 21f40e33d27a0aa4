"""Metrics of waiting, refusing for want of room, degradation and hedging. Labels are bounded."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from inference.contract.kinds import DegradationStep, PriorityClass

_WAIT_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Shed(StrEnum):
    """Why a request was sent away for want of room."""

    FULL = "queue_full"
    TIMEOUT = "queue_timeout"
    DISPLACED = "displaced"
    DEGRADED = "degraded"


class Hedge(StrEnum):
    """What became of a second worker that was to be asked; one that was refused never was."""

    WON = "won"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class _Gauge:
    """Asks for its values whenever it is collected."""

    name: str
    words: str
    label: str
    read: Callable[[], Mapping[str, float]]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self.name, self.words, labels=(self.label,))
        for value, number in self.read().items():
            family.add_metric((value,), number)
        yield family


class QueueMetrics:
    """Counts of one process's waiting room, its ladders and its hedges."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._waits = Histogram(
            "headworks_gateway_queue_wait_seconds",
            "How long requests waited for a worker with room, those that got none included",
            ("class",),
            registry=registry,
            buckets=_WAIT_BUCKETS_S,
        )
        self._shed = Counter(
            "headworks_gateway_shed",
            "Requests sent away for want of room",
            ("route", "class", "reason"),
            registry=registry,
        )
        self._degraded = Counter(
            "headworks_gateway_degraded_requests",
            "Requests that a step of degradation changed",
            ("route", "step"),
            registry=registry,
        )
        self._hedges = Counter(
            "headworks_gateway_hedges",
            "Second workers asked because the first said nothing",
            ("route", "result"),
            registry=registry,
        )

    def waited(self, priority: PriorityClass, wait_s: float) -> None:
        """Count the end of a wait."""
        self._waits.labels(priority.value).observe(wait_s)

    def shed(self, route_id: str, priority: PriorityClass, why: Shed) -> None:
        """Count a request that was sent away."""
        self._shed.labels(route_id, priority.value, why.value).inc()

    def degraded(self, route_id: str, step: DegradationStep) -> None:
        """Count a request that a step changed."""
        self._degraded.labels(route_id, step.value).inc()

    def hedged(self, route_id: str, result: Hedge) -> None:
        """Count a hedge."""
        self._hedges.labels(route_id, result.value).inc()

    def watch_depths(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Have the number that wait by pool asked of this whenever metrics are read."""
        self._watch("queue_depth", "Requests that wait for a worker with room", "pool", read)

    def watch_ladders(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Have the steps taken by route asked of this whenever metrics are read."""
        words = "Steps of degradation in force at a route, added up over processes"
        self._watch("degradation_steps", words, "route", read)

    def _watch(
        self, name: str, words: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        self._registry.register(_Gauge(f"headworks_gateway_{name}", words, label, read))

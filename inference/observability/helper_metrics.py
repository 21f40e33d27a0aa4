"""What became of what this process asked of the helper, and how that helper is, as metrics."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_OUTCOMES = ("answered", "late", "down", "busy", "too_long", "dropped", "garbled")


@dataclass(frozen=True, slots=True)
class HelperReading:
    """The counts of a line to the helper by outcome, and whether it is asked at all."""

    counts: Mapping[str, int]
    is_up: bool


class HelperMetrics:
    """Asks for a reading whenever metrics are read."""

    def __init__(self, read: Callable[[], HelperReading]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Give the reading as metrics; the registry asks for it."""
        reading = self._read()
        asked = CounterMetricFamily(
            "headworks_gateway_helper_calls",
            "What was to be asked or told of the helper, by what became of it",
            labels=("outcome",),
        )
        for outcome in _OUTCOMES:
            asked.add_metric((outcome,), reading.counts[outcome])
        yield asked
        yield GaugeMetricFamily(
            "headworks_gateway_helper_up",
            "Processes that ask the helper: it is there and in time",
            value=float(reading.is_up),
        )

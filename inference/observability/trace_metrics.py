"""What became of spans: sent, or dropped and why."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter


class Dropped(StrEnum):
    """Why spans never reached the receiver."""

    FULL = "queue_full"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    FAILED = "failed"


class TraceMetrics:
    """Counts of one gateway process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sent = Counter(
            "headworks_gateway_spans_sent",
            "Spans that the receiver of traces took",
            registry=registry,
        )
        self._dropped = Counter(
            "headworks_gateway_spans_dropped",
            "Spans that were made for nothing",
            ("reason",),
            registry=registry,
        )

    def sent(self, spans: int) -> None:
        """Count spans that the receiver took."""
        self._sent.inc(spans)

    def dropped(self, spans: int, why: Dropped) -> None:
        """Count spans that it was not given, or didn't take."""
        self._dropped.labels(why.value).inc(spans)

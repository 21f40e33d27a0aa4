"""Metrics of several processes as one, through deaths and restarts."""

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from inference.observability.merging import Family, Merger, families_of


class Process:
    """A process that counts, and how many requests it has under way."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("hw_requests", "Requests", ("route",), registry=self.registry)
        self.inflight = Gauge("hw_inflight", "Under way", registry=self.registry)
        self.duration = Histogram(
            "hw_seconds", "Duration", registry=self.registry, buckets=(1.0, 2.0)
        )

    @property
    def families(self) -> tuple[Family, ...]:
        return families_of(self.registry)


def values(text: bytes) -> dict[str, float]:
    return {
        one.name + "".join(f"|{value}" for value in one.labels.values()): one.value
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
    }


def test_counters_histograms_and_gauges_of_all_processes_are_summed() -> None:
    one, other = Process(), Process()
    one.requests.labels("rt_a").inc(2)
    other.requests.labels("rt_a").inc(3)
    other.requests.labels('rt "b"\n').inc()
    one.inflight.set(1)
    other.inflight.set(4)
    one.duration.observe(0.5)
    other.duration.observe(1.5)
    text = Merger().text([one.families, other.families])
    assert values(text) == {
        "hw_requests_total|rt_a": 5,
        'hw_requests_total|rt "b"\n': 1,
        "hw_inflight": 5,
        "hw_seconds_bucket|1.0": 1,
        "hw_seconds_bucket|2.0": 2,
        "hw_seconds_bucket|+Inf": 2,
        "hw_seconds_count": 2,
        "hw_seconds_sum": 2,
    }
    assert b"# TYPE hw_requests_total counter" in text
    assert b"# TYPE hw_seconds histogram" in text


def test_what_a_dead_process_counted_stays_and_what_it_had_under_way_does_not() -> None:
    merger, dead, heir = Merger(), Process(), Process()
    dead.requests.labels("rt_a").inc(7)
    dead.inflight.set(3)
    dead.duration.observe(0.5)
    merger.retire(dead.families)
    merger.retire(dead.families)  # another that counted as much
    heir.requests.labels("rt_a").inc()
    found = values(merger.text([heir.families]))
    assert found["hw_requests_total|rt_a"] == 15
    assert found["hw_seconds_count"] == 2
    assert found["hw_inflight"] == 0
    alone = values(merger.text([]))
    assert alone["hw_requests_total|rt_a"] == 14
    assert "hw_inflight" not in alone


def test_what_is_no_number_is_left_out() -> None:
    process = Process()
    process.inflight.set(math.nan)
    assert "hw_inflight" not in values(Merger().text([process.families]))

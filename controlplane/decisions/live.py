"""What vitals mean for the tables of live figures, and how they add up to longer ones.

Rows are values that can be written again: a traffic row belongs to one process instance, a gauge
row to one second, and coverage only grows. Histograms are added, never averaged.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from controlplane.decisions.ledger import stored_text
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import (
    TRAFFIC_BUCKET_S,
    TRAFFIC_BUCKETS_KEPT,
    Traffic,
    Vitals,
    WorkerGauges,
)

Key = TypeVar("Key", int, str)

SECOND_S = 1
FINE_S = TRAFFIC_BUCKET_S
MINUTE_S = 60
QUARTER_S = 900

BELIEVED_S = 120.0
"""A bucket or measurement further than this from the sampler's clock comes from a wrong clock."""

GAUGES = ("running", "waiting", "kv_used", "utilisation", "memory_bytes")

_COUNTS = (
    *("requests", "prompt_tokens", "completion_tokens"),
    *("cost_nanousd", "unknown_usage", "unknown_cost"),
)
_MAPS = ("failures", "first_token_ms", "output_token_ms", "shed", "refused")


@dataclass(slots=True, kw_only=True)
class TrafficRow:
    """A row of the traffic table, its members named as the columns are."""

    resolution_s: int
    at: datetime
    source: str
    organisation_id: str
    route_id: str
    pool_id: str
    requests: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanousd: int = 0
    unknown_usage: int = 0
    unknown_cost: int = 0
    first_token_ms: dict[int, int] = field(default_factory=dict)
    output_token_ms: dict[int, int] = field(default_factory=dict)
    shed: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class WorkerRow:
    """A row of the workers' table; no samples means not known."""

    resolution_s: int
    at: datetime
    pool_id: str
    worker_id: str
    is_gpu: bool
    running_sum: float = 0.0
    running_samples: int = 0
    waiting_sum: float = 0.0
    waiting_samples: int = 0
    kv_used_sum: float = 0.0
    kv_used_samples: int = 0
    utilisation_sum: float = 0.0
    utilisation_samples: int = 0
    memory_bytes_sum: float = 0.0
    memory_bytes_samples: int = 0


@dataclass(frozen=True, slots=True)
class Cover:
    """The part of a fine bucket that gateways reported, in seconds from its beginning."""

    at: datetime
    since_s: float | None
    until_s: float | None


def bucket_of_time(moment: float, length_s: int) -> datetime:
    """The beginning of the bucket that a moment (seconds since the epoch) lies in."""
    return datetime.fromtimestamp(moment // length_s * length_s, UTC)


def traffic_rows(vitals: Iterable[Vitals], now: datetime) -> tuple[TrafficRow, ...]:
    """The fine rows of all buckets that these records carry."""
    rows = (
        _fine_row(one, traffic)
        for one in vitals
        for traffic in one.traffic
        if is_believed(traffic.at, now)
    )
    return tuple(sorted(rows, key=_key_of_traffic))


def _fine_row(one: Vitals, traffic: Traffic) -> TrafficRow:
    return TrafficRow(
        resolution_s=FINE_S,
        at=bucket_of_time(traffic.at, FINE_S),
        source=id_text(f"{one.process}@{one.started_at:.3f}"),
        organisation_id=id_text(traffic.organisation_id),
        route_id=id_text(traffic.route_id),
        pool_id=id_text(traffic.pool_id),
        requests=traffic.requests,
        failures={id_text(code): count for code, count in traffic.failures.items()},
        prompt_tokens=traffic.prompt_tokens,
        completion_tokens=traffic.completion_tokens,
        cost_nanousd=traffic.cost_nanousd,
        unknown_usage=traffic.unknown_usage,
        unknown_cost=traffic.unknown_cost,
        first_token_ms=dict(traffic.first_token_ms),
        output_token_ms=dict(traffic.output_token_ms),
        shed={id_text(priority): count for priority, count in traffic.shed.items()},
        refused={id_text(reason): count for reason, count in traffic.refused.items()},
    )


def id_text(text: str) -> str:
    """A text as columns and documents can hold it."""
    return stored_text(text.replace("\0", "\ufffd"))


def worker_rows(vitals: Iterable[Vitals], now: datetime) -> tuple[WorkerRow, ...]:
    """One row a worker that a leader has measured lately, of the second in which it did.

    Of two leaders in one second, the one that measured last has the say.
    """
    gauges = [gauge for one in vitals for gauge in one.workers if is_believed(gauge.at, now)]
    latest = {gauge.worker_id: gauge for gauge in sorted(gauges, key=lambda gauge: gauge.at)}
    return tuple(_second_row(latest[worker_id]) for worker_id in sorted(latest))


def _second_row(gauge: WorkerGauges) -> WorkerRow:
    row = WorkerRow(
        resolution_s=SECOND_S,
        at=bucket_of_time(gauge.at, SECOND_S),
        pool_id=id_text(gauge.pool_id),
        worker_id=id_text(gauge.worker_id),
        is_gpu=gauge.is_gpu,
    )
    for name in GAUGES:
        value = getattr(gauge, name)
        if value is not None and math.isfinite(value):
            setattr(row, f"{name}_sum", float(value))
            setattr(row, f"{name}_samples", 1)
    return row


def covers(vitals: Iterable[Vitals], now: datetime) -> tuple[Cover, ...]:
    """Which part of each bucket the gateways' records speak for, oldest first, the newest always.

    A record speaks for the buckets it carries: from its process's start, until it was written.
    """
    spans: dict[datetime, tuple[float, float]] = {}
    for one in vitals:
        if one.role is not ProcessRole.GATEWAY or not is_believed(one.written_at, now):
            continue
        newest = one.written_at // FINE_S * FINE_S
        for back in range(TRAFFIC_BUCKETS_KEPT):
            begin = newest - back * FINE_S
            since, until = max(0.0, one.started_at - begin), min(FINE_S, one.written_at - begin)
            if since < until:
                at = datetime.fromtimestamp(begin, UTC)
                known = spans.get(at, (since, until))
                spans[at] = (min(known[0], since), max(known[1], until))
    found = {at: Cover(at, *span) for at, span in spans.items()}
    current = bucket_of_time(now.timestamp(), FINE_S)
    found.setdefault(current, Cover(current, None, None))
    return tuple(found[at] for at in sorted(found))


def is_believed(moment: float, now: datetime) -> bool:
    return abs(moment - now.timestamp()) <= BELIEVED_S


def folded_traffic(rows: Iterable[TrafficRow], length_s: int) -> tuple[TrafficRow, ...]:
    """The rows of longer buckets that these add up to, whoever their sources were."""
    longer: dict[tuple[datetime, str, str, str], TrafficRow] = {}
    for row in rows:
        at = bucket_of_time(row.at.timestamp(), length_s)
        key = (at, row.organisation_id, row.route_id, row.pool_id)
        if key not in longer:
            longer[key] = TrafficRow(
                resolution_s=length_s,
                at=at,
                source="",
                organisation_id=row.organisation_id,
                route_id=row.route_id,
                pool_id=row.pool_id,
            )
        _add_traffic(longer[key], row)
    return tuple(sorted(longer.values(), key=_key_of_traffic))


def _add_traffic(total: TrafficRow, row: TrafficRow) -> None:
    for name in _COUNTS:
        setattr(total, name, getattr(total, name) + getattr(row, name))
    for name in _MAPS:
        add_counts(getattr(total, name), getattr(row, name))


def add_counts(total: dict[Key, int], more: Mapping[Key, int]) -> None:
    """Add counts by key to a running total, in place."""
    if not total:
        total.update(more)
        return
    for key, count in more.items():
        if key in total:
            total[key] += count
        else:
            total[key] = count


def _key_of_traffic(row: TrafficRow) -> tuple[object, ...]:
    """The order in which every writer takes its locks."""
    return (row.organisation_id, row.at, row.pool_id, row.route_id, row.source)


def folded_workers(rows: Iterable[WorkerRow], length_s: int) -> tuple[WorkerRow, ...]:
    """The rows of longer buckets that these gauges add up to."""
    longer: dict[tuple[datetime, str, str], WorkerRow] = {}
    for row in rows:
        at = bucket_of_time(row.at.timestamp(), length_s)
        key = (at, row.pool_id, row.worker_id)
        if key not in longer:
            longer[key] = WorkerRow(
                resolution_s=length_s,
                at=at,
                pool_id=row.pool_id,
                worker_id=row.worker_id,
                is_gpu=row.is_gpu,
            )
        total = longer[key]
        total.is_gpu = row.is_gpu
        for name in GAUGES:
            for column in (f"{name}_sum", f"{name}_samples"):
                setattr(total, column, getattr(total, column) + getattr(row, column))
    return tuple(longer[key] for key in sorted(longer))

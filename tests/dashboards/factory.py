"""Live figures made by hand, as `selectors.live` would read them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from controlplane.selectors.live import (
    Coverage,
    LadderSeries,
    LiveView,
    QueueSeries,
    Span,
    Summary,
    TrafficSeries,
    WorkerSeries,
)
from dashboards.base import PoolLine, Scene
from dashboards.kinds import Page

SINCE = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
SINCE_S = int(SINCE.timestamp())
BUCKET_S = 5
NOW = SINCE + timedelta(seconds=4 * BUCKET_S)
SHARES = (0.5, 0.95, 0.99)

Values = Sequence[float | None]


def traffic(key: str = "", label: str = "All", **fields: Any) -> TrafficSeries:
    """Four buckets of traffic."""
    none: Values = (None, None, None, None)
    made = TrafficSeries(
        key=key,
        label=label,
        requests=(5, 10, 0, 15),
        requests_per_s=(1.0, 2.0, 0.0, 3.0),
        failure_share=(0.0, 0.1, None, 0.2),
        failures={"upstream_timeout": (0, 1, 0, 3)},
        prompt_tokens_per_s=(10.0, 20.0, 0.0, 30.0),
        completion_tokens_per_s=(5.0, 6.0, 0.0, 7.0),
        cost_nanousd_per_hour=(1_000_000_000, 2_000_000_000, 0, 3_500_000_000),
        first_token_ms={share: none for share in SHARES},
        output_token_ms={share: none for share in SHARES},
        cache_hit_share=(0.0, 0.5, None, 0.75),
    )
    return replace(made, **fields)


def worker(ordinal: int = 0, pool_id: str = "pool_a", **fields: Any) -> WorkerSeries:
    """Four buckets of one worker's gauges."""
    made = WorkerSeries(
        key=f"{pool_id}-{ordinal}",
        label=f"{pool_id}/{ordinal}",
        pool_id=pool_id,
        running=(1, 2, None, 4),
        waiting=(0, 0, None, 1),
        kv_used=(0.25, 0.5, None, 0.75),
        utilisation=(10.0, 20.0, None, 40.0),
        memory_bytes=(1e9, 1e9, None, 2e9),
        is_gpu=False,
    )
    return replace(made, **fields)


def queue(pool_id: str = "pool_a", **fields: Any) -> QueueSeries:
    """Four buckets of who waits for a pool, nobody in the last."""
    made = QueueSeries(
        key=pool_id,
        label=pool_id.removeprefix("pool_"),
        waiting=(0, 3, None, 0),
        oldest_wait_ms=(0, 4_200.0, None, 0),
        waiting_now=0,
        oldest_wait_ms_now=0.0,
    )
    return replace(made, **fields)


def ladder(name: str = "chat", **fields: Any) -> LadderSeries:
    """Four buckets of a route that has come to its second step of three."""
    made = LadderSeries(
        key=f"rt_{name}",
        label=name,
        names=("trim_batch", "smaller_model", "shed_batch"),
        steps=(0, 1, None, 2),
        now=2,
        since=SINCE,
    )
    return replace(made, **fields)


def percentiles(p50: float | None, p95: float | None, p99: float | None) -> Mapping[float, Any]:
    return dict(zip(SHARES, (p50, p95, p99), strict=True))


def summary(**fields: Any) -> Summary:
    made = Summary(
        requests_per_s=38.4,
        failure_share=0.0042,
        first_token_ms=percentiles(212.4, 842.0, 1_118.0),
        output_token_ms=percentiles(19.04, 31.0, None),
        samples=1_240,
        prompt_tokens_per_s=34_600.0,
        completion_tokens_per_s=8_070.0,
        running=148,
        waiting=18,
        kv_used=0.68,
        utilisation=71.2,
        is_gpu=False,
        cost_nanousd_per_hour=48_900_000_000,
        has_unknown_cost=False,
        output_samples=60,
        cache_hit_share=0.625,
    )
    return replace(made, **fields)


def view(**fields: Any) -> LiveView:
    """Twenty seconds of one organisation, two gateways reporting."""
    made = LiveView(
        span=Span(SINCE, NOW, BUCKET_S),
        at=tuple(SINCE + timedelta(seconds=n * BUCKET_S) for n in range(4)),
        covered=(1.0, 1.0, 1.0, 0.4),
        coverage=Coverage(2, 2, (), NOW - timedelta(seconds=1)),
        total=traffic(),
        pools=(),
        workers=(),
        summary=summary(),
        pool_summaries={},
        percentile_window_s=300,
        month_to_date_nanousd=26_914_120_000_000,
        saved_today_nanousd=12_000_000_000,
    )
    return replace(made, **fields)


def pool_line(name: str = "a", state: str = "ready", **fields: Any) -> PoolLine:
    made = PoolLine(f"pool_{name}", name, "gpt-x", state, "", 1, 1)
    return replace(made, **fields)


def scene(page: Page = Page.OVERVIEW, *, at: LiveView | None = None, **fields: Any) -> Scene:
    """A page in Copenhagen, whose last bucket is still filling."""
    made = Scene(
        page=page,
        view=at or view(),
        now=NOW - timedelta(seconds=2),
        zone=ZoneInfo("Europe/Copenhagen"),
        zone_name="Europe/Copenhagen",
        pools=(pool_line(),),
        slots={"pool_a": 1, "pool_b": 2},
    )
    return replace(made, **fields)

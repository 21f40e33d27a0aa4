"""The shapes of a question about live figures and of its answer; null is no data, never 0."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from rest_framework import serializers

from controlplane.selectors.live import (
    WINDOWS,
    LadderSeries,
    LiveView,
    QueueSeries,
    Summary,
    TrafficSeries,
    WorkerSeries,
    priced_costs,
)

Subject = WorkerSeries | QueueSeries | LadderSeries
"""A series of one worker, pool or route."""

_EARLIEST = datetime(1970, 2, 1, tzinfo=UTC)
_LATEST = datetime(2500, 1, 1, tzinfo=UTC)
_MONEY = "Whole nano-USD as text."
_COST = f"{_MONEY} null where no price says what it is, never 0."


class LiveQuerySerializer(serializers.Serializer[object]):
    """The last hour of all traffic unless told otherwise."""

    window = serializers.ChoiceField(choices=list(WINDOWS), default="1h")
    until = serializers.DateTimeField(
        required=False, help_text="Where the window ends, if not now; a later time is now."
    )
    pool = serializers.CharField(
        required=False, max_length=255, help_text="Name or id; all traffic without it."
    )

    route = serializers.CharField(
        required=False, max_length=255, help_text="Name or id, in place of a pool."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "pool" in attrs and "route" in attrs:
            raise serializers.ValidationError({"route": "Ask for a pool or for a route."})
        return attrs

    def validate_until(self, value: datetime) -> datetime:
        if not _EARLIEST <= value <= _LATEST:
            raise serializers.ValidationError("This is out of range.")
        return value


def _values(help_text: str = "") -> serializers.ListField:
    return serializers.ListField(child=serializers.FloatField(allow_null=True), help_text=help_text)


class MoneyValuesField(serializers.ListField):
    """Money a bucket, whole and as text."""

    child = serializers.CharField(allow_null=True)

    def to_representation(self, data: Sequence[float | None]) -> list[str | None]:
        return [None if value is None else str(round(value)) for value in data]


class PercentilesSerializer(serializers.Serializer[object]):
    p50 = _values()
    p95 = _values()
    p99 = _values()


class PercentileSerializer(serializers.Serializer[object]):
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(allow_null=True)


class TrafficSeriesSerializer(serializers.Serializer[object]):
    """A value a bucket; rates are by the time the bucket has covered so far."""

    id = serializers.CharField(allow_null=True, help_text="Of the pool; null is no pool, or all.")
    label = serializers.CharField()
    requests = _values()
    requests_per_s = _values()
    failure_share = _values("From 0 to 1; null without requests.")
    failures = serializers.DictField(child=_values(), help_text="Counts by error code.")
    prompt_tokens_per_s = _values()
    completion_tokens_per_s = _values()
    cost_nanousd_per_hour = MoneyValuesField(help_text=_COST)
    first_token_ms = PercentilesSerializer()
    output_token_ms = PercentilesSerializer()
    shed_per_s = serializers.DictField(
        child=_values(), help_text="Sent away for want of room, by class; of no pool."
    )
    refused_per_s = serializers.DictField(
        child=_values(),
        help_text="Turned away before any pool saw them, by reason: `budget`, `limit`, `switch`, "
        "`capacity`; of no pool.",
    )
    cache_hit_share = _values("What caches served, from 0 to 1; null where none was asked.")


class QueueSeriesSerializer(serializers.Serializer[object]):
    """Who waits in the gateways for a pool's workers; the most at once, a value a bucket."""

    id = serializers.CharField(help_text="Of the pool.")
    label = serializers.CharField()
    waiting = _values("One that could go to several pools counts at its first.")
    oldest_wait_ms = _values("The longest anybody had waited.")
    waiting_now = serializers.IntegerField(allow_null=True, help_text="In the newest bucket.")
    oldest_wait_ms_now = serializers.FloatField(allow_null=True)


class LadderSeriesSerializer(serializers.Serializer[object]):
    """How many steps of degradation a route has taken, the most at once, a value a bucket."""

    id = serializers.CharField(help_text="Of the route.")
    label = serializers.CharField()
    names = serializers.ListField(
        child=serializers.CharField(), help_text="All its steps, in the order they are taken."
    )
    steps = _values()
    now = serializers.IntegerField(allow_null=True, help_text="Steps in force.")
    since = serializers.DateTimeField(
        allow_null=True, help_text="When it came to that; null while none is in force."
    )


class WorkerSeriesSerializer(serializers.Serializer[object]):
    """A mean a bucket."""

    id = serializers.CharField()
    label = serializers.CharField()
    pool_id = serializers.CharField()
    running = _values()
    waiting = _values()
    kv_used = _values("From 0 to 1.")
    utilisation = _values("Per cent of its GPUs if `is_gpu`, else of the host's CPUs.")
    memory_bytes = _values("Of its GPUs if `is_gpu`, else of its processes.")
    is_gpu = serializers.BooleanField()


class SummarySerializer(serializers.Serializer[object]):
    """Rates of the last minute, percentiles of the last five, gauges of the last seconds."""

    requests_per_s = serializers.FloatField(allow_null=True)
    failure_share = serializers.FloatField(allow_null=True)
    first_token_ms = PercentileSerializer()
    output_token_ms = PercentileSerializer()
    samples = serializers.IntegerField(help_text="First-token times in the last five minutes.")
    prompt_tokens_per_s = serializers.FloatField(allow_null=True)
    completion_tokens_per_s = serializers.FloatField(allow_null=True)
    running = serializers.IntegerField(allow_null=True)
    waiting = serializers.IntegerField(allow_null=True)
    kv_used = serializers.FloatField(allow_null=True)
    utilisation = serializers.FloatField(allow_null=True)
    is_gpu = serializers.BooleanField()
    cost_nanousd_per_hour = serializers.CharField(allow_null=True, help_text=_COST)
    has_unknown_cost = serializers.BooleanField()
    shed = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Sent away for want of room in the last minute, by class.",
    )
    refused = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Turned away before any pool saw them in the last minute, by reason.",
    )
    cache_hit_share = serializers.FloatField(allow_null=True)


class PoolSummarySerializer(SummarySerializer):
    id = serializers.CharField(allow_null=True, help_text="Of the pool; null is no pool.")
    label = serializers.CharField()


class CoverageSerializer(serializers.Serializer[object]):
    """How many gateways report of those there are."""

    live = serializers.IntegerField()
    seen = serializers.IntegerField()
    missing = serializers.ListField(child=serializers.CharField())
    as_of = serializers.DateTimeField(allow_null=True, help_text="When it was so; null is never.")


class LiveSerializer(serializers.Serializer[object]):
    organisation_id = serializers.CharField()
    pool_id = serializers.CharField(allow_null=True)
    route_id = serializers.CharField(allow_null=True)
    bucket_s = serializers.IntegerField()
    percentile_window_s = serializers.IntegerField()
    coverage = CoverageSerializer()
    at = serializers.ListField(
        child=serializers.DateTimeField(), help_text="When each bucket begins."
    )
    covered = serializers.ListField(
        child=serializers.FloatField(),
        help_text="Which share of each bucket any gateway reported; all values of 0 are null.",
    )
    total = TrafficSeriesSerializer()
    pools = TrafficSeriesSerializer(many=True, help_text="Most requests first.")
    workers = WorkerSeriesSerializer(
        many=True, help_text="None for a route: its workers serve other routes as well."
    )
    queues = QueueSeriesSerializer(
        many=True,
        help_text="Of the pools there are; for a route of those it may send to, whichever route "
        "those who wait came by.",
    )
    ladders = LadderSeriesSerializer(
        many=True, help_text="Of routes that degrade and may send to what is asked about."
    )
    summary = SummarySerializer()
    pool_summaries = PoolSummarySerializer(many=True)
    month_to_date_nanousd = serializers.CharField(
        allow_null=True, help_text=f"{_MONEY} By the ledger; null for one pool or route."
    )
    saved_today_nanousd = serializers.CharField(
        allow_null=True,
        help_text=f"{_MONEY} By caches; null for one pool or route, and if nothing of "
        "it has a price.",
    )

    def get_fields(self) -> dict[str, Any]:
        times = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return {**times, **super().get_fields()}


def live_document(
    view: LiveView,
    *,
    organisation_id: str,
    pool_id: str | None,
    route_id: str | None,
    priced: Mapping[str, bool],
) -> dict[str, Any]:
    """A view as `LiveSerializer` takes it; `priced` says of each shown pool if it has a price."""
    labels = {series.key: series.label for series in view.pools}
    lacking = {
        key: one.lacks_price(is_priced=priced.get(key, True))
        for key, one in view.pool_summaries.items()
    }
    # nothing served costs nothing
    lacks = view.summary.lacks_price(is_priced=not priced or any(priced.values()))
    spent, saved = view.month_to_date_nanousd, view.saved_today_nanousd
    return {
        "from": view.span.since,
        "to": view.span.until,
        "organisation_id": organisation_id,
        "pool_id": pool_id,
        "route_id": route_id,
        "bucket_s": view.span.bucket_s,
        "percentile_window_s": view.percentile_window_s,
        "coverage": asdict(view.coverage),
        "at": view.at,
        "covered": view.covered,
        "total": _series(view.total, lacks_price=lacks),
        "pools": [_series(one, lacks_price=lacking.get(one.key, False)) for one in view.pools],
        "workers": [_told(one) for one in view.workers],
        "queues": [_told(one) for one in view.queues],
        "ladders": [_told(one) for one in view.ladders],
        "summary": _summary(view.summary, lacks_price=lacks),
        "pool_summaries": [
            {
                "id": key or None,
                "label": labels.get(key, key),
                **_summary(one, lacks_price=lacking[key]),
            }
            for key, one in view.pool_summaries.items()
        ],
        "month_to_date_nanousd": None if spent is None else str(spent),
        "saved_today_nanousd": None if saved is None else str(saved),
    }


def _series(series: TrafficSeries, *, lacks_price: bool) -> dict[str, Any]:
    told = _members(series)
    return told | {
        "id": told.pop("key") or None,
        "cost_nanousd_per_hour": priced_costs(series, lacks_price=lacks_price),
        "first_token_ms": _percentiles(series.first_token_ms),
        "output_token_ms": _percentiles(series.output_token_ms),
    }


def _told(series: Subject) -> dict[str, Any]:
    told = _members(series)
    return told | {"id": told.pop("key")}


def _summary(summary: Summary, *, lacks_price: bool) -> dict[str, Any]:
    cost = None if lacks_price else summary.cost_nanousd_per_hour
    return _members(summary) | {
        "first_token_ms": _percentiles(summary.first_token_ms),
        "output_token_ms": _percentiles(summary.output_token_ms),
        "cost_nanousd_per_hour": None if cost is None else str(cost),
    }


def _members(value: TrafficSeries | Subject | Summary) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _percentiles(by_share: Mapping[float, object]) -> dict[str, object]:
    return {f"p{round(share * 100)}": found for share, found in by_share.items()}

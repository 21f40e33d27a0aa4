"""What ended here of late, in buckets of a few seconds: counted once a request, read by vitals."""

from collections import deque
from dataclasses import dataclass, field

from inference.contract.events import End
from inference.contract.kinds import Outcome, PriorityClass
from inference.contract.vitals import TRAFFIC_BUCKET_S, TRAFFIC_BUCKETS_KEPT, Traffic
from inference.decisions.histograms import bucket_of
from inference.decisions.outcomes import is_failure, reason_of
from inference.errors import ErrorCode

REPORTED_S = float(TRAFFIC_BUCKET_S * TRAFFIC_BUCKETS_KEPT)
"""For so long after it last grew, a bucket is in every record."""

BUCKETS_REMEMBERED = 1440
"""Two hours of buckets: readers keep them no longer."""

_BUCKET_MS = TRAFFIC_BUCKET_S * 1000

_SHED = frozenset((ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_TIMEOUT, ErrorCode.REQUEST_SHED))
"""What a request is told that was sent away for want of room."""

_Place = tuple[str, str, str]
"""Organisation, route and pool."""


@dataclass(slots=True)
class _Counts:
    """What `Traffic` says of one place in one bucket, while it grows."""

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


@dataclass(slots=True)
class _Bucket:
    """All places of one bucket. `grown_at_s` is when it last grew, by the stopwatch.

    `records` is what was said of it since then, so that only what grew is put together again.
    """

    at: int
    grown_at_s: float
    places: dict[_Place, _Counts] = field(default_factory=dict)
    records: tuple[Traffic, ...] | None = None


class TrafficCounter:
    """Counts ends into the newest few buckets. Unknowns are counted as such, as in the roll-ups.

    A request counts at the pool of its last attempt; tokens and money at the pool of each.
    Buckets are times of the wall clock, and readers replace what they have of one. So a time whose
    bucket is gone from here is never opened again, even if the clock says it anew: what ends then
    counts into the bucket opened last.
    """

    def __init__(self) -> None:
        self._kept: deque[_Bucket] = deque(maxlen=TRAFFIC_BUCKETS_KEPT)
        self._opened: deque[int] = deque(maxlen=BUCKETS_REMEMBERED)
        self._number = -1
        self._bucket: _Bucket | None = None

    def count(self, end: End, *, mono_s: float) -> None:
        """Count a request that ended at `end.at_ms`; `mono_s` is that moment by the stopwatch."""
        number = end.at_ms // _BUCKET_MS
        bucket = self._bucket
        if bucket is None or number != self._number:
            bucket = self._bucket_for(number, mono_s)
        bucket.grown_at_s, bucket.records = mono_s, None
        origin, charges = end.origin, end.charges
        organisation_id, route_id = origin.organisation_id, origin.route_id or ""
        pool_id = charges[-1].pool_id if charges else ""
        place = (organisation_id, route_id, pool_id)
        counts = bucket.places.get(place) or _counts_of(bucket, place)
        counts.requests += 1
        if end.outcome is not Outcome.OK:
            _add_failure(counts, end)
            if not charges and (reason := reason_of(end.error_code)) is not None:
                counts.refused[reason.value] = counts.refused.get(reason.value, 0) + 1
        has_unknown_cost = False
        for charge in charges:
            usage, cost, its = charge.usage, charge.cost_nanousd, counts
            if charge.pool_id != pool_id:
                its = _counts_of(bucket, (organisation_id, route_id, charge.pool_id))
            if cost is None:
                has_unknown_cost = True
            else:
                its.cost_nanousd += cost
            prompt, completion = usage.prompt_tokens, usage.completion_tokens
            if prompt is None or completion is None:
                its.unknown_usage += 1
            its.prompt_tokens += prompt or 0
            its.completion_tokens += completion or 0
        if has_unknown_cost:
            counts.unknown_cost += 1
        if end.first_token_ms is not None:
            _add_times(counts, end, end.first_token_ms)

    def records(self, *, mono_s: float) -> tuple[Traffic, ...]:
        """The kept buckets whole, but for those that have not grown of late."""
        return tuple(
            record
            for bucket in self._kept
            if mono_s - bucket.grown_at_s <= REPORTED_S
            for record in _records_of(bucket)
        )

    def _bucket_for(self, number: int, mono_s: float) -> _Bucket:
        at = number * TRAFFIC_BUCKET_S
        bucket = next((one for one in self._kept if one.at == at), None)
        if bucket is None and at in self._opened:
            bucket = self._kept[-1]
        if bucket is None:
            bucket = _Bucket(at, mono_s)
            self._kept.append(bucket)
            self._opened.append(at)
        self._number, self._bucket = number, bucket
        return bucket


def _counts_of(bucket: _Bucket, place: _Place) -> _Counts:
    counts = bucket.places.get(place)
    if counts is None:
        counts = bucket.places[place] = _Counts()
    return counts


def _add_failure(counts: _Counts, end: End) -> None:
    if is_failure(end.outcome, end.http_status):
        code = end.error_code or end.outcome.value
        counts.failures[code] = counts.failures.get(code, 0) + 1
        if code in _SHED:
            priority = (end.origin.priority or PriorityClass.DEFAULT).value
            counts.shed[priority] = counts.shed.get(priority, 0) + 1


def _add_times(counts: _Counts, end: End, first_ms: float) -> None:
    _observe(counts.first_token_ms, first_ms)
    tokens = end.charges[-1].usage.completion_tokens if end.charges else None
    if end.outcome is Outcome.OK and tokens is not None and tokens > 1:
        _observe(counts.output_token_ms, (end.total_ms - first_ms) / (tokens - 1))


def _observe(histogram: dict[int, int], value_ms: float) -> None:
    bucket = bucket_of(value_ms)
    histogram[bucket] = histogram.get(bucket, 0) + 1


def _records_of(bucket: _Bucket) -> tuple[Traffic, ...]:
    if bucket.records is None:
        bucket.records = tuple(
            _record(bucket.at, place, counts) for place, counts in bucket.places.items()
        )
    return bucket.records


def _record(at: int, place: _Place, counts: _Counts) -> Traffic:
    organisation_id, route_id, pool_id = place
    return Traffic(
        at=at,
        organisation_id=organisation_id,
        route_id=route_id,
        pool_id=pool_id,
        requests=counts.requests,
        failures=dict(counts.failures),
        prompt_tokens=counts.prompt_tokens,
        completion_tokens=counts.completion_tokens,
        cost_nanousd=counts.cost_nanousd,
        unknown_usage=counts.unknown_usage,
        unknown_cost=counts.unknown_cost,
        first_token_ms=dict(counts.first_token_ms),
        output_token_ms=dict(counts.output_token_ms),
        shed=dict(counts.shed),
        refused=dict(counts.refused),
    )

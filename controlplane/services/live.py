"""Writes of the live figures' tables: a sample's rows, longer buckets, and the end of old ones.

The feed has `bridge.sampler.sample(now)` write a sample once a second, and calls `tidy(now)` here
every ten. Facts have no actor and no audit row. Every row is written whole, by one statement a
table, so doing it again, or by two processes, changes nothing; what an older record says never
takes away from what a newer one said.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models import Max, Min, Model, QuerySet

from controlplane.decisions.live import (
    FINE_S,
    MINUTE_S,
    QUARTER_S,
    SECOND_S,
    Cover,
    TrafficRow,
    WorkerRow,
    bucket_of_time,
    covers,
    folded_traffic,
    folded_workers,
    traffic_rows,
    worker_rows,
)
from controlplane.decisions.live_peaks import Held, PeakKind, PeakRow, folded_peaks, peak_rows
from controlplane.decisions.propagation import PartlySilent
from controlplane.models import LiveCoverage, LivePeak, LiveTraffic, LiveWorker
from inference.contract.vitals import Vitals

FINE_KEPT = timedelta(hours=2)
FOLDED_KEPT = timedelta(days=35)


@dataclass(frozen=True, slots=True)
class Rung:
    """How rows are folded into longer ones. Records may carry a bucket for 25 s after its end.

    Folding waits `delay` after a bucket's end and does again what it did in the last `again`, so
    that at last everything is in.
    """

    from_s: int
    workers_from_s: int
    into_s: int
    delay: timedelta
    again: timedelta


_MINUTES = Rung(FINE_S, SECOND_S, MINUTE_S, timedelta(0), timedelta(minutes=2))
_QUARTERS = Rung(MINUTE_S, MINUTE_S, QUARTER_S, timedelta(minutes=3), timedelta(0))

_FOLD_BATCH = 10
_DELETE_BATCH = timedelta(hours=1)
_MOST_BATCHES = 12

_HELD = timedelta(seconds=15)
"""A feed that was away for longer doesn't know since when a route has its steps."""

_TABLES: Sequence[type[Model]] = (LiveTraffic, LiveWorker, LivePeak, LiveCoverage)
_KEYS: Mapping[type[Model], Sequence[str]] = {
    LiveTraffic: ("resolution_s", "organisation_id", "at", "pool_id", "route_id", "source"),
    LiveWorker: ("resolution_s", "pool_id", "at", "worker_id"),
    LivePeak: ("resolution_s", "kind", "subject_id", "at"),
}
# these only grow as a bucket fills, so a row with less is older than the one that is there
_GROWING: Mapping[type[Model], Sequence[str]] = {
    LiveTraffic: ("requests",),
    LiveWorker: ("running_samples", "utilisation_samples"),
    LivePeak: ("value",),
}

# what was so while a bucket lasted stays with it; only what is covered may still grow afterwards
_IS_NEWS = (
    "EXCLUDED.as_of >= held.as_of "
    "AND EXCLUDED.as_of < held.at + make_interval(secs => held.resolution_s)"
)
_CENSUS = ", ".join(
    f"{name} = CASE WHEN {_IS_NEWS} THEN EXCLUDED.{name} ELSE held.{name} END"
    for name in ("live", "seen", "missing", "as_of")
)
_COVER = f"""
INSERT INTO controlplane_livecoverage AS held
  (resolution_s, at, since_s, until_s, covered_s, live, seen, missing, as_of)
SELECT resolution_s, at, since_s, until_s, COALESCE(until_s - since_s, 0), live, seen, missing,
  as_of
FROM json_populate_recordset(NULL::controlplane_livecoverage, %s::json)
ON CONFLICT (resolution_s, at) DO UPDATE SET
  since_s = LEAST(held.since_s, EXCLUDED.since_s),
  until_s = GREATEST(held.until_s, EXCLUDED.until_s),
  covered_s = COALESCE(
    GREATEST(held.until_s, EXCLUDED.until_s) - LEAST(held.since_s, EXCLUDED.since_s), 0),
  {_CENSUS}
WHERE held.until_s IS NULL OR EXCLUDED.until_s > held.until_s OR EXCLUDED.since_s < held.since_s
  OR ({_IS_NEWS})
"""

_FOLD_COVERAGE = """
INSERT INTO controlplane_livecoverage AS held
  (resolution_s, at, since_s, until_s, covered_s, live, seen, missing, as_of)
SELECT DISTINCT ON (begin) %(into_s)s, begin,
  MIN(since_s + EXTRACT(EPOCH FROM at - begin)) OVER whole,
  MAX(until_s + EXTRACT(EPOCH FROM at - begin)) OVER whole,
  SUM(covered_s) OVER whole, live, seen, missing, as_of
FROM (
  SELECT *, to_timestamp(floor(EXTRACT(EPOCH FROM at) / %(into_s)s) * %(into_s)s) AS begin
  FROM controlplane_livecoverage
  WHERE resolution_s = %(from_s)s AND at >= %(since)s AND at < %(until)s
) AS shorter
WINDOW whole AS (PARTITION BY begin)
ORDER BY begin, at DESC
ON CONFLICT (resolution_s, at) DO UPDATE SET
  since_s = EXCLUDED.since_s, until_s = EXCLUDED.until_s, covered_s = EXCLUDED.covered_s,
  live = EXCLUDED.live, seen = EXCLUDED.seen, missing = EXCLUDED.missing, as_of = EXCLUDED.as_of
WHERE EXCLUDED.covered_s >= held.covered_s
"""


@dataclass(frozen=True, slots=True)
class Census:
    """How many gateways live of those there are, and the missing: by name, or as partly silent."""

    live: int
    seen: int
    missing: Sequence[str | PartlySilent]


@dataclass(frozen=True, slots=True)
class Tidied:
    """What a clean-up did: buckets folded, rows removed, and whether there is more to do."""

    folded: int
    deleted: int
    is_behind: bool


def record_sample(vitals: Sequence[Vitals], census: Census, *, now: datetime) -> None:
    """Write what these records say, in one transaction of a statement a table.

    Raises what the database raises; then nothing is written.
    """
    with transaction.atomic():
        _upsert(LiveTraffic, traffic_rows(vitals, now))
        _upsert(LiveWorker, worker_rows(vitals, now))
        held = _held_steps(now) if any(one.degraded for one in vitals) else {}
        _upsert(LivePeak, peak_rows(vitals, now, held))
        _cover(covers(vitals, now), census, now)


def _held_steps(now: datetime) -> Held:
    """How many steps routes had in the last seconds, and since when."""
    rows = LivePeak.objects.filter(
        resolution_s=FINE_S, kind=PeakKind.STEPS.value, at__gt=now - _HELD, since__isnull=False
    )
    newest = rows.order_by("subject_id", "-at").distinct("subject_id")
    return {row.subject_id: (row.value, row.since) for row in newest if row.since is not None}


def tidy(now: datetime) -> Tidied:
    """Fold what has ended, then remove what is too old; nothing is removed before it is folded.

    Both go in small transactions, a bounded number a call: `is_behind` says to call again soon.
    """
    folded = 0
    for rung in (_MINUTES, _QUARTERS):
        buckets, is_done = _fold_rung(rung, now)
        folded += buckets
        if not is_done:
            return Tidied(folded, deleted=0, is_behind=True)
    deleted, is_done = _delete_old(now)
    return Tidied(folded, deleted, is_behind=not is_done)


def _fold_rung(rung: Rung, now: datetime) -> tuple[int, bool]:
    """Fold what ended since the last time; how many buckets were looked at, and whether all."""
    end = bucket_of_time((now - rung.delay).timestamp(), rung.into_s)
    folded = LiveCoverage.objects.filter(resolution_s=rung.into_s).aggregate(last=Max("at"))
    since = None
    if folded["last"] is not None:
        since = folded["last"] + timedelta(seconds=rung.into_s) - rung.again
    buckets = 0
    for _ in range(_MOST_BATCHES):
        since = _next_bucket(rung, since, end)
        if since is None:
            return buckets, True
        until = min(end, since + timedelta(seconds=_FOLD_BATCH * rung.into_s))
        _fold(rung, since, until)
        buckets += round((until - since).total_seconds() / rung.into_s)
        since = until
    return buckets, since is not None and since >= end


def _next_bucket(rung: Rung, since: datetime | None, end: datetime) -> datetime | None:
    """The first bucket from there on that has rows to fold; a time without a sampler has none."""
    rows = LiveCoverage.objects.filter(resolution_s=rung.from_s, at__lt=end)
    later = rows if since is None else rows.filter(at__gte=since)
    first = later.aggregate(first=Min("at"))["first"]
    return None if first is None else bucket_of_time(first.timestamp(), rung.into_s)


def _fold(rung: Rung, since: datetime, until: datetime) -> None:
    """Write longer buckets whole. Coverage goes last: by it a bucket counts as folded."""
    times = {"at__gte": since, "at__lt": until}
    with transaction.atomic():
        traffic = LiveTraffic.objects.filter(resolution_s=rung.from_s, **times)
        _upsert(LiveTraffic, folded_traffic(_traffic_in(traffic), rung.into_s))
        workers = LiveWorker.objects.filter(resolution_s=rung.workers_from_s, **times)
        _upsert(LiveWorker, folded_workers(_workers_in(workers.order_by("at")), rung.into_s))
        peaks = LivePeak.objects.filter(resolution_s=rung.from_s, **times)
        found = [PeakRow(**row) for row in peaks.values(*_names(PeakRow))]
        _upsert(LivePeak, folded_peaks(found, rung.into_s))
        with connection.cursor() as cursor:
            lengths = {"from_s": rung.from_s, "into_s": rung.into_s}
            cursor.execute(_FOLD_COVERAGE, {**lengths, "since": since, "until": until})


def _traffic_in(rows: QuerySet[LiveTraffic]) -> Iterable[TrafficRow]:
    for row in rows.values(*_names(TrafficRow)):
        for name in ("first_token_ms", "output_token_ms"):
            row[name] = {int(bucket): count for bucket, count in row[name].items()}
        yield TrafficRow(**row)


def _workers_in(rows: QuerySet[LiveWorker]) -> Iterable[WorkerRow]:
    return (WorkerRow(**row) for row in rows.values(*_names(WorkerRow)))


def _names(shape: type[Any]) -> list[str]:
    return [field.name for field in fields(shape)]


def _upsert(model: type[Model], rows: Sequence[TrafficRow | WorkerRow | PeakRow]) -> None:
    """Write rows whole, in the order given; those that say nothing new are left alone."""
    if not rows:
        return
    table, key, names = model._meta.db_table, _KEYS[model], _names(type(rows[0]))
    values = [name for name in names if name not in key]
    columns = ", ".join(names)
    held, told = (", ".join(f"{side}.{name}" for name in values) for side in ("held", "EXCLUDED"))
    newer = " AND ".join(f"EXCLUDED.{name} >= held.{name}" for name in _GROWING[model])
    statement = (
        f"INSERT INTO {table} AS held ({columns}) SELECT {columns} "
        f"FROM json_populate_recordset(NULL::{table}, %s::json) "
        f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET ({', '.join(values)}) = ROW ({told}) "
        f"WHERE ({held}) IS DISTINCT FROM ({told}) AND {newer}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [msgspec.json.encode(rows).decode()])


def _cover(found: Sequence[Cover], census: Census, now: datetime) -> None:
    shared = {"resolution_s": FINE_S, "as_of": now, **asdict(census)}
    rows = [asdict(cover) | shared for cover in found]
    with connection.cursor() as cursor:
        cursor.execute(_COVER, [msgspec.json.encode(rows).decode()])


def _delete_old(now: datetime) -> tuple[int, bool]:
    """Remove what is past its time, a stretch of it a transaction; how many, and whether all is."""
    fine, folded = (
        bucket_of_time((now - kept).timestamp(), QUARTER_S) for kept in (FINE_KEPT, FOLDED_KEPT)
    )
    times = [
        *((model, length, folded) for model in _TABLES for length in (MINUTE_S, QUARTER_S)),
        *((model, FINE_S, fine) for model in (LiveTraffic, LivePeak, LiveCoverage)),
        (LiveWorker, SECOND_S, fine),
    ]
    deleted, is_done = 0, True
    for model, resolution_s, before in times:
        rows = model._default_manager.filter(resolution_s=resolution_s)
        removed, is_all = _delete_before(rows, before)
        deleted, is_done = deleted + removed, is_done and is_all
    return deleted, is_done


def _delete_before(rows: QuerySet[Any], before: datetime) -> tuple[int, bool]:
    deleted = 0
    for _ in range(_MOST_BATCHES):
        oldest = rows.order_by("at").values_list("at", flat=True).first()
        if oldest is None or oldest >= before:
            return deleted, True
        removed, _kinds = rows.filter(at__lt=min(before, oldest + _DELETE_BATCH)).delete()
        deleted += removed
    return deleted, False

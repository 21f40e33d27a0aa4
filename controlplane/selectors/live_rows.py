"""The tables of live figures, read in bins: one statement a table, whatever is asked of it.

Finished minutes are read from minutes' rows, what follows them from fine ones. Whoever asks has
seen to it that the organisation and the pools are the caller's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection

from controlplane.decisions.live import (
    FINE_S,
    GAUGES,
    MINUTE_S,
    QUARTER_S,
    SECOND_S,
    add_counts,
    bucket_of_time,
)
from controlplane.decisions.live_series import Tally
from controlplane.models import LiveCoverage

_SETTLED = timedelta(seconds=MINUTE_S)
"""A minute is read from its own row once another has passed: until then records may come late."""

Rungs = Sequence[tuple[int, datetime]]
"""Up to when rows of which length may be read in place of shorter ones, the longest first."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A half-open range to be read in bins of `bin_s`, or whole, as bin 0, if that is None.

    Rows of each of `rungs` are read as far as they go, and fine ones after that.
    """

    since: datetime
    until: datetime
    bin_s: int | None
    rungs: Rungs = ()

    @property
    def place(self) -> str:
        """The bin of a row in SQL: seconds since the epoch by the bins' length, rounded down."""
        if self.bin_s is None:
            return "0::bigint"
        return f"floor(EXTRACT(EPOCH FROM at) / {self.bin_s})::bigint"

    def parts(self, fine_s: int) -> Sequence[tuple[int, datetime, datetime]]:
        """Rows of which length are read from when until when."""
        found: list[tuple[int, datetime, datetime]] = []
        since = self.since
        for length_s, settled in (*self.rungs, (fine_s, self.until)):
            until = min(max(since, settled), self.until)
            if since < until:
                found.append((length_s, since, until))
            since = until
        return found


@dataclass(slots=True)
class WorkerBins:
    """One worker's gauges: by name and bin, the sum and the number of samples."""

    pool_id: str
    is_gpu: bool = False
    gauges: dict[str, dict[int, tuple[float, int]]] = field(
        default_factory=lambda: {name: {} for name in GAUGES}
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """What was sampled last before the end of what is asked, None if nothing ever was.

    `is_past` tells that something was sampled after it. `rungs` are of all lengths.
    """

    shown: LiveCoverage | None
    is_past: bool
    rungs: Rungs

    def rungs_for(self, bin_s: int) -> Rungs:
        """Those that bins of this length are made of whole."""
        return [rung for rung in self.rungs if bin_s % rung[0] == 0]


def read_newest(before: datetime) -> Newest:
    """Find the newest coverage, and up to where longer rows are folded for good."""
    rows = [
        LiveCoverage.objects.filter(resolution_s=length, **bound).order_by("-at")[:1]
        for length in (FINE_S, MINUTE_S, QUARTER_S)
        for bound in ({}, {"at__lt": before})
    ]
    found = list(rows[0].union(*rows[1:], all=True))
    shown = max(
        (row for row in found if row.at < before and row.resolution_s != QUARTER_S),
        key=_when,
        default=None,
    )
    is_past = shown is not None and any(row.as_of > shown.as_of for row in found)
    return Newest(shown, is_past, tuple(_rungs(found)))


def _rungs(found: Sequence[LiveCoverage]) -> Iterator[tuple[int, datetime]]:
    for length in (QUARTER_S, MINUTE_S):
        rows = [row.at for row in found if row.resolution_s == length]
        if rows:
            newest = max(row.as_of for row in found)
            settled = bucket_of_time(newest.timestamp(), MINUTE_S) - _SETTLED
            yield length, min(settled, max(rows) + timedelta(seconds=length))


def _when(row: LiveCoverage) -> tuple[datetime, int]:
    return row.as_of, -row.resolution_s


def read_covered(stretches: Sequence[Stretch]) -> list[dict[int, float]]:
    """For each stretch the covered seconds by bin."""
    found: list[dict[int, float]] = [{} for _ in stretches]
    for number, bin_number, covered_s in _read(
        "SELECT {part}, {bin} AS bin, SUM(covered_s) FROM controlplane_livecoverage "
        "WHERE {times} GROUP BY bin",
        stretches,
        FINE_S,
    ):
        found[number][bin_number] = covered_s
    return found


_TRAFFIC = """
SELECT {part}, {bin} AS bin, pool_id, SUM(requests)::bigint, SUM(prompt_tokens)::bigint,
  SUM(completion_tokens)::bigint, SUM(cost_nanousd)::bigint, SUM(unknown_usage)::bigint,
  SUM(unknown_cost)::bigint,
  string_agg(failures::text, ',') FILTER (WHERE failures <> '{{}}'),
  string_agg(first_token_ms::text, ',') FILTER (WHERE first_token_ms <> '{{}}'),
  string_agg(output_token_ms::text, ',') FILTER (WHERE output_token_ms <> '{{}}'),
  string_agg(shed::text, ',') FILTER (WHERE shed <> '{{}}'),
  string_agg(refused::text, ',') FILTER (WHERE refused <> '{{}}')
FROM controlplane_livetraffic
WHERE organisation_id = %s AND (%s::text IS NULL OR pool_id = %s)
  AND (%s::text IS NULL OR route_id = %s) AND {times}
GROUP BY bin, pool_id
"""


def read_traffic(
    organisation_id: str,
    stretches: Sequence[Stretch],
    *,
    pool_id: str | None = None,
    route_id: str | None = None,
) -> list[dict[str, dict[int, Tally]]]:
    """For each stretch the traffic by pool ("" is none) and bin; all, or one pool's or route's."""
    found: list[dict[str, dict[int, Tally]]] = [defaultdict(dict) for _ in stretches]
    scope = (organisation_id, pool_id, pool_id, route_id, route_id)
    for number, bin_number, pool, *sums, failures, first, output, shed, refused in _read(
        _TRAFFIC, stretches, FINE_S, scope
    ):
        tally = Tally(*sums)
        _add_all(tally.failures, failures, dict[str, int])
        _add_all(tally.first_token_ms, first, dict[int, int])
        _add_all(tally.output_token_ms, output, dict[int, int])
        _add_all(tally.shed, shed, dict[str, int])
        _add_all(tally.refused, refused, dict[str, int])
        found[number][pool][bin_number] = tally
    return found


def _add_all(total: dict[Any, int], documents: str | None, shape: Any) -> None:
    """Add up counts that come as JSON objects with commas between."""
    if documents is not None:
        for counts in msgspec.json.decode(f"[{documents}]", type=list[shape]):
            add_counts(total, counts)


_PLACES = {
    "all": "'all'",
    "organisation": "organisation_id",
    "pool": "pool_id",
    "route": "route_id",
}
_TRAFFIC_BY = """
SELECT {{part}}, {{bin}} AS bin, {place} AS place, SUM(requests)::bigint,
  string_agg(failures::text, ',') FILTER (WHERE failures <> '{{{{}}}}'),
  string_agg(first_token_ms::text, ',') FILTER (WHERE first_token_ms <> '{{{{}}}}')
FROM controlplane_livetraffic
WHERE (%s::text IS NULL OR organisation_id = %s) AND {place} = ANY(%s) AND {{times}}
GROUP BY bin, place
"""


def read_traffic_by(
    place: str, organisation_id: str | None, ids: Sequence[str], stretch: Stretch
) -> Mapping[str, Mapping[int, Tally]]:
    """Requests, failures and first tokens by place and bin; `place` is a scope of alerts.

    Without an organisation, everybody's; the one place of everything is called `all`.
    """
    found: dict[str, dict[int, Tally]] = defaultdict(dict)
    template = _TRAFFIC_BY.format(place=_PLACES[place])
    scope = (organisation_id, organisation_id, list(ids))
    for _, bin_number, name, requests, failures, first in _read(template, [stretch], FINE_S, scope):
        tally = Tally(requests=requests)
        _add_all(tally.failures, failures, dict[str, int])
        _add_all(tally.first_token_ms, first, dict[int, int])
        found[name][bin_number] = tally
    return found


_FRESH = timedelta(seconds=30)


def read_missing(moments: Sequence[datetime]) -> Sequence[float | None]:
    """How many gateways were missing at each moment; None where no sample is of it.

    A single moment is answered by the newest sample, moments of a past by those of minutes.
    """
    length = FINE_S if len(moments) == 1 else MINUTE_S
    since = moments[0] - (_FRESH if length == FINE_S else timedelta(seconds=length))
    rows = LiveCoverage.objects.filter(resolution_s=length, at__gte=since, at__lte=moments[-1])
    told = rows.order_by("at").values_list("at", "live", "seen")
    found = {int(at.timestamp()) // length: seen - live for at, live, seen in told if seen}
    if length == FINE_S:
        return [float(found[max(found)]) if found else None]
    # a minute is known once it is over
    numbers = [int(at.timestamp()) // length - 1 for at in moments]
    return [float(found[one]) if one in found else None for one in numbers]


_WORKERS = (
    "SELECT {part}, {bin} AS bin, pool_id, worker_id, bool_or(is_gpu), "
    + ", ".join(f"SUM({name}_sum), SUM({name}_samples)::int" for name in GAUGES)
    + " FROM controlplane_liveworker WHERE pool_id = ANY(%s) AND {times} "
    "GROUP BY bin, pool_id, worker_id"
)


def read_workers(
    pool_ids: Sequence[str], stretches: Sequence[Stretch]
) -> list[dict[str, WorkerBins]]:
    """For each stretch the gauges of these pools' workers, by worker."""
    found: list[dict[str, WorkerBins]] = [{} for _ in stretches]
    for number, bin_number, pool_id, worker_id, is_gpu, *pairs in _read(
        _WORKERS, stretches, SECOND_S, (list(pool_ids),)
    ):
        worker = found[number].setdefault(worker_id, WorkerBins(pool_id))
        worker.is_gpu = worker.is_gpu or is_gpu
        for name, total, samples in zip(GAUGES, pairs[::2], pairs[1::2], strict=True):
            if samples:
                worker.gauges[name][bin_number] = (total, samples)
    return found


@dataclass(frozen=True, slots=True)
class Peak:
    """The most there was of something in one bin, and since when it was so much at its last."""

    value: float
    since: datetime | None


Peaks = Mapping[tuple[str, str], Mapping[int, Peak]]
"""By kind and subject, and by bin."""

_PEAKS = (
    "SELECT {part}, {bin} AS bin, kind, subject_id, MAX(value), "
    "(array_agg(since ORDER BY at DESC))[1] FROM controlplane_livepeak "
    "WHERE subject_id = ANY(%s) AND {times} GROUP BY bin, kind, subject_id"
)


def read_peaks(subject_ids: Sequence[str], stretches: Sequence[Stretch]) -> list[Peaks]:
    """For each stretch the peaks of these pools and routes; bins with none are left out."""
    found: list[dict[tuple[str, str], dict[int, Peak]]] = [{} for _ in stretches]
    for number, bin_number, kind, subject_id, value, since in _read(
        _PEAKS, stretches, FINE_S, (list(subject_ids),)
    ):
        found[number].setdefault((kind, subject_id), {})[bin_number] = Peak(value, since)
    return list(found)


def _read(
    template: str, stretches: Sequence[Stretch], fine_s: int, scope: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Read all stretches at once; each row says first which stretch it is of."""
    statements: list[str] = []
    parameters: list[object] = []
    for number, stretch in enumerate(stretches):
        parts = stretch.parts(fine_s)
        if not parts:
            continue
        times = " OR ".join("(resolution_s = %s AND at >= %s AND at < %s)" for _ in parts)
        statements.append(template.format(part=number, bin=stretch.place, times=f"({times})"))
        parameters += scope
        for part in parts:
            parameters += part
    if not statements:
        return []
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(statements), parameters)
        return list(cursor.fetchall())

"""The roll-up of what our own GPUs cost: an hour at a time, written anew whole.

Workers are there by the minutes in which their supervisor measured them, busy by the attempts the
ledger has. Ends may come late, so the last hours are computed again; the same facts give the same
rows, whoever computes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max

from controlplane.decisions.gpu_costs import Line, User, Work, hour_price, lines_of
from controlplane.models import GpuPrice, LiveWorker, OwnCost, Pool
from controlplane.selectors.gpu_costs import Gpus, get_gpus_at

HOUR = timedelta(hours=1)
AGAIN = 3
"""So many whole hours are computed again: what ended then may be recorded late."""

MOST_HOURS = 48
"""So many hours a run at most, for a start after a long time."""

KEPT = timedelta(days=35)
"""How far back it is known which workers there were."""

LOCK = 0x4857_4743
"""Key of the advisory lock of the job ("HWGC"), the same for every process."""

_WORKERS = """
SELECT pool_id, count(*) FROM controlplane_liveworker
WHERE resolution_s = 60 AND at >= %(begin)s AND at < %(end)s GROUP BY pool_id
"""
_BUSY = """
SELECT pool_id, SUM(EXTRACT(EPOCH FROM upper(span) - lower(span)))
FROM (
    SELECT pool_id, worker_id, unnest(range_agg(tstzrange(
        GREATEST(started_at, %(begin)s), LEAST(ended_at, %(end)s)
    ))) AS span
    FROM (
        SELECT pool_id, worker_id, started_at,
            started_at + duration_ms * interval '1 millisecond' AS ended_at
        FROM controlplane_charge
        WHERE pool_id = ANY(%(pools)s) AND day >= %(first)s AND day <= %(last)s
            AND started_at >= %(earliest)s AND started_at < %(end)s
    ) AS attempt
    WHERE ended_at > %(begin)s
    GROUP BY pool_id, worker_id
) AS busy
GROUP BY pool_id
"""
_WORK = """
SELECT c.pool_id, r.team_id, r.project_id, c.model_id,
    COALESCE(SUM(
        GREATEST(COALESCE(c.prompt_tokens, 0) - COALESCE(c.cached_tokens, 0), 0)
        + COALESCE(c.completion_tokens, 0)
    ), 0)::bigint,
    COUNT(*), COALESCE(SUM(c.cost_nanousd), 0)::bigint,
    COUNT(*) FILTER (WHERE c.cost_nanousd IS NULL)
FROM controlplane_charge c JOIN controlplane_request r USING (event_id, day)
WHERE c.pool_id = ANY(%(pools)s) AND c.day >= %(first)s AND c.day <= %(last)s
    AND c.started_at >= %(earliest)s AND c.started_at < %(end)s
    AND c.started_at + c.duration_ms * interval '1 millisecond' >= %(begin)s
    AND c.started_at + c.duration_ms * interval '1 millisecond' < %(end)s
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""
_LONGEST = timedelta(hours=2)
"""An attempt that took longer counts from so long before the hour."""


@contextmanager
def sole_job() -> Iterator[bool]:
    """Whether no other job computes; as long as this lasts none will."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        (is_sole,) = cursor.fetchone()
    try:
        yield is_sole
    finally:
        if is_sole:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def hours_to_compute(now: datetime) -> Sequence[datetime]:
    """The hours that aren't computed yet or may have changed since, the oldest first."""
    current = _hour_of(now)
    known = OwnCost.objects.aggregate(last=Max("hour"))["last"]
    if known is None:
        return _hours_between(current - AGAIN * HOUR, current)
    last, oldest = min(known, current), current - KEPT
    hours = _hours_between(max(last - AGAIN * HOUR, oldest), last)
    # an hour without workers leaves no row, so what follows begins where there were some again
    following = _next_measured(max(last + HOUR, oldest))
    if following is not None:
        hours += _hours_between(following, current)
    return hours[:MOST_HOURS]


def compute_hour(hour: datetime, now: datetime) -> int:
    """Write the rows of all measured pools of one hour anew; returns how many.

    An hour goes by what a pool's GPUs were when it began, however often it is computed.
    """
    with transaction.atomic():
        minutes = dict(_rows(_WORKERS, _asked(hour, ())))
        pools = list(Pool.objects.filter(pk__in=sorted(minutes)).order_by("pk"))
        ids = [pool.pk for pool in pools]
        busy = dict(_rows(_BUSY, _asked(hour, ids)))
        works = _works(hour, ids)
        prices = _prices(pools)
        all_gpus = get_gpus_at(pools, hour)
        rows = []
        for pool in pools:
            kind = all_gpus[pool.pk]
            price = hour_price(
                prices.get((pool.organisation_id, kind.gpu_type, kind.capacity_class), ()),
                kind.gpu_type,
                kind.capacity_class,
                hour,
            )
            gpus = kind.gpus_per_worker
            lines = lines_of(
                works.get(pool.pk, ()),
                gpu_seconds=60.0 * minutes[pool.pk] * gpus,
                busy_gpu_seconds=float(busy.get(pool.pk) or 0) * gpus,
                hour_nanousd=price,
            )
            rows += [_row(pool, kind, hour, line, price=price, now=now) for line in lines]
        # rows of a pool that was removed since stay: nobody can compute them anew
        OwnCost.objects.filter(hour=hour, pool_id__in=ids).delete()
        OwnCost.objects.bulk_create(rows)
    return len(rows)


def forget_old_costs(now: datetime) -> int:
    """Remove hours of more than two years ago; returns how many rows."""
    return OwnCost.objects.filter(hour__lt=now - timedelta(days=730)).delete()[0]


def _hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _hours_between(first: datetime, last: datetime) -> list[datetime]:
    """Whole hours, both ends among them."""
    return [first + number * HOUR for number in range(int((last - first) / HOUR) + 1)]


def _next_measured(since: datetime) -> datetime | None:
    """The next hour in which workers of a pool that is there were measured."""
    minutes = LiveWorker.objects.filter(
        resolution_s=60, at__gte=since, pool_id__in=Pool.objects.values("pk")
    )
    at = minutes.order_by("at").values_list("at", flat=True).first()
    return None if at is None else _hour_of(at)


def _asked(hour: datetime, pools: Sequence[str]) -> Mapping[str, object]:
    earliest, end = hour - _LONGEST, hour + HOUR
    return {
        "begin": hour,
        "end": end,
        "earliest": earliest,
        "first": earliest.date(),
        "last": (end + timedelta(days=1)).date(),
        "pools": list(pools),
    }


def _rows(statement: str, asked: Mapping[str, object]) -> list[tuple]:  # type: ignore[type-arg]
    with connection.cursor() as cursor:
        cursor.execute(statement, asked)
        return list(cursor.fetchall())


def _works(hour: datetime, ids: Sequence[str]) -> Mapping[str, list[Work]]:
    found: dict[str, list[Work]] = {}
    for pool_id, team, project, model, *sums in _rows(_WORK, _asked(hour, ids)):
        found.setdefault(pool_id, []).append(Work(User(team, project, model), *sums))
    return found


def _prices(
    pools: Sequence[Pool],
) -> Mapping[tuple[str, str | None, str | None], list[GpuPrice]]:
    found: dict[tuple[str, str | None, str | None], list[GpuPrice]] = {}
    homes = sorted({pool.organisation_id for pool in pools})
    for one in GpuPrice.objects.filter(organisation_id__in=homes):
        place = (one.organisation_id, one.gpu_type, one.capacity_class)
        found.setdefault(place, []).append(one)
    return found


def _row(
    pool: Pool, gpus: Gpus, hour: datetime, line: Line, *, price: int | None, now: datetime
) -> OwnCost:
    return OwnCost(
        organisation_id=pool.organisation_id,
        pool_id=pool.pk,
        hour=hour,
        kind=line.kind.value,
        team_id=line.user.team_id,
        project_id=line.user.project_id,
        model_id=line.user.model_id,
        gpu_type=gpus.gpu_type or "",
        capacity_class=gpus.capacity_class or "",
        gpu_seconds=line.gpu_seconds,
        tokens=line.tokens,
        attempts=line.attempts,
        own_nanousd=line.own_nanousd,
        list_nanousd=line.list_nanousd,
        unpriced=line.unpriced,
        hour_nanousd=price,
        computed_at=now,
    )

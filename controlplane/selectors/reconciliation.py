"""The books side by side, each comparison from one statement, so that both are of one moment."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from controlplane.decisions.journals import Progress, count_committed
from controlplane.decisions.reconciliation import Figures
from controlplane.models import JournalMark, LedgerCheck

Books = Mapping[str, Mapping[str, Figures]]
"""Figures by book and place."""

_FIGURES = (
    *("requests", "errors", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("cost_nanousd", "unknown_usage", "unknown_cost"),
)
_SUMS = ", ".join(f"sum({name}) AS {name}" for name in _FIGURES)

_ROLL_UPS = f"""
WITH since AS (
    SELECT id, (date_trunc('day', %(now)s AT TIME ZONE time_zone) - interval '1 day')::date AS day,
        (date_trunc('day', %(now)s AT TIME ZONE time_zone) - interval '1 day')
            AT TIME ZONE time_zone AS at
    FROM controlplane_organisation
)
SELECT 'minutes' AS book, id, {_SUMS} FROM since JOIN controlplane_usageminute
    ON organisation_id = id AND minute >= at GROUP BY id
UNION ALL
SELECT 'hours by ' || dimension, id, {_SUMS} FROM since JOIN controlplane_usagehour
    ON organisation_id = id AND hour >= at GROUP BY id, dimension
UNION ALL
SELECT 'days by ' || dimension, id, {_SUMS} FROM since JOIN controlplane_usageday AS one
    ON organisation_id = id AND one.day >= since.day GROUP BY id, dimension
"""

_LEDGER = """
SELECT 'ledger' AS book, organisation_id, sum(requests) AS requests, sum(attempts) AS attempts,
    sum(prompt_tokens) AS prompt_tokens, sum(completion_tokens) AS completion_tokens,
    sum(cached_tokens) AS cached_tokens, sum(cost_nanousd) AS cost_nanousd,
    sum(unknown_cost) AS unknown_cost
FROM (
SELECT r.organisation_id, count(*) FILTER (WHERE place.is_first) AS requests,
    count(c.event_id) AS attempts, coalesce(sum(c.prompt_tokens), 0) AS prompt_tokens,
    coalesce(sum(c.completion_tokens), 0) AS completion_tokens,
    coalesce(sum(c.cached_tokens), 0) AS cached_tokens,
    coalesce(sum(c.cost_nanousd), 0) AS cost_nanousd,
    count(*) FILTER (WHERE place.is_first AND r.cost_nanousd IS NULL) AS unknown_cost
FROM controlplane_request AS r
LEFT JOIN controlplane_charge AS c ON c.event_id = r.event_id AND c.day = r.day
CROSS JOIN LATERAL (
    SELECT r.attempts <= 1 OR c.attempt = (
        SELECT min(attempt) FROM controlplane_charge AS own
        WHERE own.event_id = r.event_id AND own.day = r.day
    ) AS is_first
) AS place
WHERE r.day >= %(first)s AND r.day <= %(last)s AND r.at >= %(since)s AND r.at < %(until)s
GROUP BY r.organisation_id
UNION ALL
SELECT organisation_id, 0, 0, 0, 0, 0, sum(amount_nanousd),
    -count(*) FILTER (WHERE is_request_known)
FROM controlplane_spendcorrection WHERE at >= %(since)s AND at < %(until)s
GROUP BY organisation_id
) AS booked
GROUP BY organisation_id
UNION ALL
SELECT 'minutes', organisation_id, sum(requests), sum(attempts), sum(prompt_tokens),
    sum(completion_tokens), sum(cached_tokens), sum(cost_nanousd), sum(unknown_cost)
FROM controlplane_usageminute WHERE minute >= %(since)s AND minute < %(until)s
GROUP BY organisation_id
"""

_COUNTERS = """
SELECT 'gateways' AS book, organisation_id, sum(requests) AS requests
FROM controlplane_livetraffic
WHERE resolution_s = 60 AND at >= %(since)s AND at < %(until)s
GROUP BY organisation_id
UNION ALL
SELECT 'ledger', organisation_id, sum(requests)
FROM controlplane_usageminute WHERE minute >= %(since)s AND minute < %(until)s
GROUP BY organisation_id
"""

_COVERED = """
SELECT count(*) FROM controlplane_livecoverage
WHERE resolution_s = 60 AND at >= %(since)s AND at < %(until)s
    AND covered_s >= 55 AND live = seen
"""


def read_roll_ups(now: datetime) -> Books:
    """Minutes, hours and days by each dimension since yesterday began, by organisation."""
    return _read(_ROLL_UPS, {"now": now})


def read_ledger(since: datetime, until: datetime) -> Books:
    """The ledger's rows with their corrections, and the minutes of a stretch of whole minutes."""
    ends = {"since": since, "until": until, "first": since.date(), "last": until.date()}
    return _read(_LEDGER, ends)


def read_counters(since: datetime, until: datetime) -> Books | None:
    """What gateways counted, as the feed heard it, and the minutes, by organisation.

    None unless every minute of the stretch was heard whole, of every gateway.
    """
    ends = {"since": since, "until": until}
    with connection.cursor() as cursor:
        cursor.execute(_COVERED, ends)
        (covered,) = cursor.fetchone()
    return _read(_COUNTERS, ends) if covered >= (until - since) / timedelta(minutes=1) else None


def read_journals() -> tuple[Mapping[str, Figures], Mapping[str, Figures]]:
    """By journal: how many of its ends are committed, and how many of those are accounted for."""
    committed: dict[str, Figures] = {}
    accounted: dict[str, Figures] = {}
    for row in JournalMark.objects.all():
        ahead = tuple((first, last) for first, last in row.ahead)
        committed[row.journal] = {"ends": count_committed(Progress(row.mark, ahead))}
        accounted[row.journal] = {"ends": row.recorded + row.set_aside + row.skipped}
    return committed, accounted


def list_checks() -> Mapping[str, LedgerCheck]:
    """The last comparisons by name."""
    return {row.name: row for row in LedgerCheck.objects.order_by("name")}


def _read(statement: str, values: Mapping[str, object]) -> Books:
    books: dict[str, dict[str, Figures]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            told = dict(zip(names, row, strict=True))
            book, place = str(told.pop("book")), str(row[1])
            figures = {name: int(value) for name, value in list(told.items())[1:]}
            books[book][place] = figures
    return books

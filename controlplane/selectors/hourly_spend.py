"""What was spent in the last hour, and in the same hour of days before, by the roll-ups.

Keys have no minutes of their own, so of them it is the last whole hour of the organisation's clock.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Min

from controlplane.decisions.alert_kinds import AlertScope
from controlplane.decisions.spending import DAYS
from controlplane.models import Key, Organisation, Project, Route, Team, UsageMinute
from controlplane.selectors.budgets import ledger_id

_HOUR = timedelta(hours=1)
_COLUMNS = {
    AlertScope.ORGANISATION: "u.organisation_id",
    AlertScope.ROUTE: "u.route_id",
    AlertScope.PROJECT: "u.project_id",
    AlertScope.TEAM: "p.team_id",
}
_ROWS = {
    AlertScope.ROUTE: Route,
    AlertScope.PROJECT: Project,
    AlertScope.TEAM: Team,
    AlertScope.KEY: Key,
}
_TEAMS = "JOIN controlplane_project p ON p.id = u.project_id"
_SUMS = """
SELECT {column}, t.until, SUM(u.cost_nanousd)::bigint
FROM unnest(%s::timestamptz[]) AS t(until)
JOIN controlplane_usageminute u
  ON u.minute >= t.until - interval '1 hour' AND u.minute < t.until AND u.organisation_id = %s
{join}
WHERE {column} = ANY(%s)
GROUP BY 1, 2
"""
_MINUTES = """
SELECT {column}, u.minute, SUM(u.cost_nanousd)::bigint
FROM controlplane_usageminute u {join}
WHERE u.minute >= %s AND u.minute < %s AND u.organisation_id = %s AND {column} = ANY(%s)
GROUP BY 1, 2 ORDER BY 2
"""
_HOURS = """
SELECT value, hour + interval '1 hour', SUM(cost_nanousd)::bigint
FROM controlplane_usagehour
WHERE hour = ANY(%s::timestamptz[]) AND organisation_id = %s AND dimension = 'key'
  AND value = ANY(%s)
GROUP BY 1, 2
"""

Spent = Callable[[str, datetime], int]
"""What a place spent in the hour up to a moment."""


def read_hours(
    scope: str, ids: Sequence[str], moments: Sequence[datetime]
) -> Mapping[str, Sequence[Sequence[int]]]:
    """By place, for each moment the last hour's nano-USD, and those of the same hour of up to 14
    days before.

    Hours are of the organisation's zone, so where clocks change it is the same hour of people's
    days. Days before the organisation's first request are not there; others without any are 0.
    """
    found: dict[str, Sequence[Sequence[int]]] = {}
    for organisation, mine in _homes(scope, ids).items():
        rows = UsageMinute.objects.filter(organisation_id=organisation.pk)
        first = rows.aggregate(first=Min("minute"))["first"]
        if first is None:
            continue
        ends = [_ends(scope, at, organisation.time_zone) for at in moments]
        known = [[one[0], *(end for end in one[1:] if end - _HOUR >= first)] for one in ends]
        spent = _spent(scope, organisation.pk, mine, known)
        for pk in mine:
            found[pk] = [[spent(pk, end) for end in one] for one in known]
    return found


def _homes(scope: str, ids: Sequence[str]) -> Mapping[Organisation, Sequence[str]]:
    if scope == AlertScope.ORGANISATION:
        return {one: [one.pk] for one in Organisation.objects.filter(pk__in=ids)}
    found: dict[Organisation, list[str]] = defaultdict(list)
    rows: Any = _ROWS[AlertScope(scope)]._default_manager.filter(pk__in=ids)
    for row in rows.select_related("organisation"):
        found[row.organisation].append(row.pk)
    return found


def _ends(scope: str, at: datetime, time_zone: str) -> Sequence[datetime]:
    """Whole minutes, or hours: now, and the same time of day before, as people's clocks had it."""
    end = at.astimezone(ZoneInfo(time_zone)).replace(second=0, microsecond=0)
    if scope == AlertScope.KEY:
        end = end.replace(minute=0)
    return [(end - timedelta(days=back)).astimezone(UTC) for back in range(DAYS + 1)]


def _spent(
    scope: str, organisation_id: str, ids: Sequence[str], moments: Sequence[Sequence[datetime]]
) -> Spent:
    ends = sorted({end for one in moments for end in one})
    if scope == AlertScope.KEY:
        by_ledger = [ledger_id(scope, pk) for pk in ids]
        # what is compared with is the column itself, or its index is of no use
        begins = [end - _HOUR for end in ends]
        told = _read(_HOURS, [begins, organisation_id, by_ledger])
        return lambda pk, end: told[ledger_id(scope, pk)].get(end, 0)
    column = _COLUMNS[AlertScope(scope)]
    names = {"column": column, "join": _TEAMS if scope == AlertScope.TEAM else ""}
    if len(moments) == 1:
        told = _read(_SUMS.format(**names), [ends, organisation_id, list(ids)])
        return lambda pk, end: told[pk].get(end, 0)
    span = [ends[0] - _HOUR, ends[-1]]
    return _over(_read(_MINUTES.format(**names), [*span, organisation_id, list(ids)]))


def _over(by_minute: Mapping[str, Mapping[datetime, int]]) -> Spent:
    """Sums of hours out of those of minutes, which are in their order."""
    minutes = {pk: list(one) for pk, one in by_minute.items()}
    totals = {pk: [0, *accumulate(one.values())] for pk, one in by_minute.items()}

    def spent(pk: str, end: datetime) -> int:
        if pk not in minutes:
            return 0
        first, last = (bisect_left(minutes[pk], at) for at in (end - _HOUR, end))
        return totals[pk][last] - totals[pk][first]

    return spent


def _read(statement: str, values: Sequence[object]) -> Mapping[str, Mapping[datetime, int]]:
    found: dict[str, dict[datetime, int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for pk, at, spent in cursor.fetchall():
            found[pk][at] = spent
    return found

"""What was spent in the last hour, and in the same hour of days before, by the minute roll-up."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Min

from controlplane.decisions.alert_kinds import AlertScope
from controlplane.decisions.spending import DAYS
from controlplane.models import Organisation, Route, UsageMinute

_HOUR = timedelta(hours=1)
_COLUMNS = {AlertScope.ORGANISATION: "u.organisation_id", AlertScope.ROUTE: "u.route_id"}
_SUMS = """
SELECT {column}, t.back, SUM(u.cost_nanousd)::bigint
FROM unnest(%s::timestamptz[]) WITH ORDINALITY AS t(until, back)
JOIN controlplane_usageminute u
  ON u.minute >= t.until - interval '1 hour' AND u.minute < t.until AND u.organisation_id = %s
WHERE {column} = ANY(%s)
GROUP BY 1, 2
"""


def read_hours(scope: str, ids: Sequence[str], now: datetime) -> Mapping[str, Sequence[int]]:
    """By place the last hour's nano-USD, and those of the same hour of up to 14 days before.

    Hours are of the organisation's zone, so where clocks change it is the same hour of people's
    days. Days before the organisation's first request are not there; others without any are 0.
    """
    found: dict[str, Sequence[int]] = {}
    for organisation, mine in _homes(scope, ids).items():
        rows = UsageMinute.objects.filter(organisation_id=organisation.pk)
        first = rows.aggregate(first=Min("minute"))["first"]
        if first is None:
            continue
        present, *before = _ends(now, organisation.time_zone)
        ends = [present, *(end for end in before if end - _HOUR >= first)]
        sums = _read(scope, organisation.pk, mine, ends)
        for pk in mine:
            found[pk] = [sums[pk].get(back, 0) for back in range(len(ends))]
    return found


def _homes(scope: str, ids: Sequence[str]) -> Mapping[Organisation, Sequence[str]]:
    if scope == AlertScope.ORGANISATION:
        return {one: [one.pk] for one in Organisation.objects.filter(pk__in=ids)}
    found: dict[Organisation, list[str]] = defaultdict(list)
    for route in Route.objects.filter(pk__in=ids).select_related("organisation"):
        found[route.organisation].append(route.pk)
    return found


def _ends(now: datetime, time_zone: str) -> Sequence[datetime]:
    """Whole minutes: now, and the same time of day before, as its people's clocks had it."""
    end = now.astimezone(ZoneInfo(time_zone)).replace(second=0, microsecond=0)
    return [(end - timedelta(days=back)).astimezone(UTC) for back in range(DAYS + 1)]


def _read(
    scope: str, organisation_id: str, ids: Sequence[str], ends: Sequence[datetime]
) -> Mapping[str, Mapping[int, int]]:
    statement = _SUMS.format(column=_COLUMNS[AlertScope(scope)])
    found: dict[str, dict[int, int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(statement, [list(ends), organisation_id, list(ids)])
        for pk, number, spent in cursor.fetchall():
            found[pk][number - 1] = spent
    return found

"""What an organisation has spent, by the ledger's roll-ups."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet, Sum

from controlplane.models import Organisation, UsageDay, UsageMinute
from controlplane.selectors.access import Access

_DAY = timedelta(days=1)
_DIMENSION = "project"
"""Every charge has one project, so its days add up to everything."""


def get_month_to_date(
    access: Access, organisation: Organisation, until: datetime, *, is_past: bool = False
) -> int | None:
    """Nano-USD booked in the month of `until`, one of the organisation's zone, before `until`.

    Whole UTC days are read by the day, and the hours that the zone's month has more by the minute.
    Of a past day that is asked for in part, the minutes are read too; of today all there is.
    None if something was charged and nothing of it has a price.
    """
    zone = ZoneInfo(organisation.time_zone)
    here = until.astimezone(zone)
    since = datetime(here.year, here.month, 1, tzinfo=zone).astimezone(UTC)
    first = _midnight(since) if since == _midnight(since) else _midnight(since) + _DAY
    last = _midnight(until.astimezone(UTC)) if is_past else _midnight(until.astimezone(UTC)) + _DAY
    days = UsageDay.objects.filter(
        organisation_id=organisation.pk, dimension=_DIMENSION, day__gte=first, day__lt=last
    )
    edges = [(since, min(first, until)), (max(last, first), until)]
    spent, unknown = _sums(access.visible_organisation_wide(days))
    if any(begin < end for begin, end in edges):
        minutes = UsageMinute.objects.filter(organisation_id=organisation.pk)
        (first_begin, first_end), (last_begin, last_end) = edges
        within = Q(minute__gte=first_begin, minute__lt=first_end) | Q(
            minute__gte=last_begin, minute__lt=last_end
        )
        more = _sums(access.visible_organisation_wide(minutes).filter(within))
        spent, unknown = spent + more[0], unknown + more[1]
    return None if unknown and not spent else spent


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time.min, UTC)


def _sums(rows: "QuerySet[UsageDay] | QuerySet[UsageMinute]") -> tuple[int, int]:
    """What was booked, and how many requests have no price."""
    found = rows.aggregate(spent=Sum("cost_nanousd"), unknown=Sum("unknown_cost"))
    return int(found["spent"] or 0), int(found["unknown"] or 0)

"""What an organisation has spent, by the ledger's roll-ups."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import QuerySet, Sum

from controlplane.models import Organisation, UsageDay, UsageMinute
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import midnight

_DAY = timedelta(days=1)
_DIMENSION = "project"
"""Every charge has one project, so its days add up to everything."""


def get_month_to_date(
    access: Access, organisation: Organisation, until: datetime, *, is_past: bool = False
) -> int | None:
    """Nano-USD booked in the month of `until`, one of the organisation's zone, before `until`.

    Of a past day that is asked for in part, the minutes are read; of today all there is.
    None if something was charged and nothing of it has a price.
    """
    zone = ZoneInfo(organisation.time_zone)
    today = until.astimezone(zone).date()
    last = today - _DAY if is_past else today
    days = UsageDay.objects.filter(
        organisation_id=organisation.pk,
        dimension=_DIMENSION,
        day__gte=today.replace(day=1),
        day__lte=last,
    )
    spent, unknown = _sums(access.visible_organisation_wide(days))
    if is_past:
        minutes = UsageMinute.objects.filter(
            organisation_id=organisation.pk, minute__gte=midnight(today, zone), minute__lt=until
        )
        more = _sums(access.visible_organisation_wide(minutes))
        spent, unknown = spent + more[0], unknown + more[1]
    return None if unknown and not spent else spent


def _sums(rows: "QuerySet[UsageDay] | QuerySet[UsageMinute]") -> tuple[int, int]:
    """What was booked, and how many requests have no price."""
    found = rows.aggregate(spent=Sum("cost_nanousd"), unknown=Sum("unknown_cost"))
    return int(found["spent"] or 0), int(found["unknown"] or 0)

"""What an organisation has spent: a month by day and group, and where it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.db.models import QuerySet, Sum

from controlplane.decisions.budgets import Forecast, forecast_of
from controlplane.decisions.prices import AMOUNTS, is_priced
from controlplane.decisions.spend_anomalies import LOOKED_BACK, Anomaly, find_anomalies
from controlplane.models import (
    Budget,
    Organisation,
    PriceVersion,
    UsageDay,
    UsageMinute,
)
from controlplane.selectors.access import Access
from controlplane.selectors.usage import Usage, get_usage
from controlplane.selectors.usage_queries import (
    DAILY_GROUPS,
    Bucket,
    Measure,
    UsageQuery,
    midnight,
)
from controlplane.selectors.usage_rows import visible_days
from inference.contract.kinds import BudgetPeriod, BudgetSubject
from inference.decisions.budgets import Period

_DAY = timedelta(days=1)
_DIMENSION = "project"
"""Every charge has one project, so its days add up to everything."""

_MOST_CHANGES = 50


@dataclass(frozen=True, slots=True)
class SpendQuery:
    """What is asked: a month by its first day, groups, and the hours of a day of it or none."""

    month: date
    group_by: str | None = None
    top: int = 7
    day: date | None = None


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A price that begins, changes or ends at `at`; of the amounts those that differ."""

    at: datetime
    model: str
    action: str
    before: Mapping[str, int | None]
    after: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Line:
    """The budget of the whole organisation for a month that binds first."""

    id: str
    name: str
    amount_nanousd: int


@dataclass(frozen=True, slots=True)
class Spend:
    """A month. `usage` is by day and group, `hours` the same of one day; sums leave unknowns out.

    `spent_nanousd` is None if something was charged and nothing of it has a price; so are unit
    costs where there is nothing to divide. `forecast` is of a month under way. `budget` is told to
    roles of the whole organisation.
    """

    query: SpendQuery
    zone: ZoneInfo
    since: datetime
    until: datetime
    usage: Usage
    hours: Usage | None
    spent_nanousd: int | None
    previous_nanousd: int | None
    nanousd_per_mtok: int | None
    nanousd_per_request: int | None
    forecast: Forecast | None
    budget: Line | None
    anomalies: Sequence[Anomaly]
    price_changes: Sequence[PriceChange]

    @property
    def is_hourly_by_group(self) -> bool:
        """Whether a day's hours can be told by the month's groups."""
        return self.query.group_by not in DAILY_GROUPS


def month_after(month: date) -> date:
    """The first day of the next month."""
    return (month + 31 * _DAY).replace(day=1)


def get_spend(
    access: Access, organisation: Organisation, query: SpendQuery, now: datetime
) -> Spend:
    """A month of spending, as far as the caller's roles reach. Raises Invalid."""
    zone = ZoneInfo(organisation.time_zone)
    today = now.astimezone(zone).date()
    end = month_after(query.month)
    since, until = midnight(query.month, zone), midnight(end, zone)
    usage = get_usage(access, organisation, usage_query(query, zone))
    days = _days_of(access, organisation, query.month - LOOKED_BACK, end)
    is_current = query.month <= today < end
    sums = usage.total
    tokens = sums["prompt_tokens"] + sums["completion_tokens"]
    spent = known_cost(sums)
    return Spend(
        query=query,
        zone=zone,
        since=since,
        until=until,
        usage=usage,
        hours=_hours(access, organisation, query, zone),
        spent_nanousd=spent,
        previous_nanousd=_month_total(access, organisation, query.month),
        nanousd_per_mtok=_per(spent, 1_000_000, tokens),
        nanousd_per_request=_per(spent, 1, sums["requests"] - sums["unknown_cost"]),
        forecast=_forecast(days, query.month, zone, spent, now) if is_current else None,
        budget=_budget(access, organisation, now),
        anomalies=find_anomalies(
            days, query.month, min(end, today + _DAY), filling=today if is_current else None
        ),
        price_changes=_price_changes(organisation, since, until),
    )


def usage_query(query: SpendQuery, zone: ZoneInfo) -> UsageQuery:
    """The same month as a question about usage."""
    return UsageQuery(
        since=midnight(query.month, zone),
        until=midnight(month_after(query.month), zone),
        bucket=Bucket.DAY,
        group_by=query.group_by,
        top=query.top,
        measure=Measure.COST,
    )


def hours_query(query: SpendQuery, day: date, zone: ZoneInfo) -> UsageQuery:
    """One day by hour; by the month's groups where those are counted by hour."""
    return UsageQuery(
        since=midnight(day, zone),
        until=midnight(day + _DAY, zone),
        bucket=Bucket.HOUR,
        group_by=None if query.group_by in DAILY_GROUPS else query.group_by,
        top=query.top,
        measure=Measure.COST,
    )


def known_cost(sums: Mapping[str, int]) -> int | None:
    """Booked cost; None where all of it that isn't 0 is unknown."""
    return None if sums["unknown_cost"] and not sums["cost_nanousd"] else sums["cost_nanousd"]


def _per(spent: int | None, unit: int, counted: int) -> int | None:
    return None if spent is None or counted <= 0 else round(spent * unit / counted)


def _hours(
    access: Access, organisation: Organisation, query: SpendQuery, zone: ZoneInfo
) -> Usage | None:
    if query.day is None:
        return None
    return get_usage(access, organisation, hours_query(query, query.day, zone))


def _days_of(
    access: Access, organisation: Organisation, since: date, until: date
) -> Mapping[date, int]:
    rows = visible_days(access, organisation, (_DIMENSION,)).filter(day__gte=since, day__lt=until)
    sums = rows.values("day").annotate(spent=Sum("cost_nanousd")).order_by("day")
    return {row["day"]: int(row["spent"]) for row in sums}


def _month_total(access: Access, organisation: Organisation, month: date) -> int | None:
    """What the month before had; None also if nothing is known of it."""
    rows = visible_days(access, organisation, (_DIMENSION,))
    before = (month - _DAY).replace(day=1)
    found = rows.filter(day__gte=before, day__lt=month).aggregate(
        spent=Sum("cost_nanousd"), unknown=Sum("unknown_cost")
    )
    if found["spent"] is None or (found["unknown"] and not found["spent"]):
        return None
    return int(found["spent"])


def _forecast(
    days: Mapping[date, int], month: date, zone: ZoneInfo, spent: int | None, now: datetime
) -> Forecast | None:
    """As a budget of the month would be forecast: one decision for both."""
    if spent is None:
        return None
    starts, ends = (midnight(one, zone) for one in (month, month_after(month)))
    period = Period(int(starts.timestamp()), int(ends.timestamp()))
    buckets = [
        (int(midnight(day, zone).timestamp()), cost) for day, cost in days.items() if day >= month
    ]
    return forecast_of(
        BudgetPeriod.MONTH,
        period,
        buckets,
        spent_nanousd=spent,
        amount_nanousd=0,
        now_s=now.timestamp(),
    )


def _budget(access: Access, organisation: Organisation, now: datetime) -> Line | None:
    if not access.reads_organisation(organisation.pk):
        return None
    rows = Budget.objects.filter(
        organisation=organisation, period=BudgetPeriod.MONTH.value, is_enabled=True
    )
    whole = [
        (_amount_of(row, now), row)
        for row in rows
        if [scope["subject"] for scope in row.scopes] == [BudgetSubject.ORGANISATION.value]
    ]
    if not whole:
        return None
    amount, row = min(whole, key=lambda one: (one[0], one[1].pk))
    return Line(row.pk, row.name, amount)


def _amount_of(budget: Budget, now: datetime) -> int:
    """What may be spent now, raised but without grace."""
    is_raised = budget.raised_until is not None and now < budget.raised_until
    raised = budget.raised_to_nanousd if is_raised else None
    return max(raised or 0, budget.amount_nanousd)


def _price_changes(
    organisation: Organisation, since: datetime, until: datetime
) -> Sequence[PriceChange]:
    """Versions that begin in [since, until), each beside the one it follows."""
    begun = PriceVersion.objects.filter(organisation=organisation, effective_from__lt=until)
    ordered = begun.order_by("effective_from", "pk")
    places = ordered.filter(effective_from__gte=since).values_list("price_id", flat=True)
    versions = ordered.filter(price_id__in=set(places[:_MOST_CHANGES]))
    before: dict[str, Mapping[str, int | None]] = {}
    found = []
    for version in versions.select_related("price__model"):
        old = before.get(version.price_id, dict.fromkeys(AMOUNTS))
        new = before[version.price_id] = version.amounts
        changed = [name for name in AMOUNTS if old[name] != new[name]]
        if version.effective_from >= since and changed:
            found.append(_price_change(version, old, new, changed))
    return found[:_MOST_CHANGES]


def _price_change(
    version: PriceVersion,
    old: Mapping[str, int | None],
    new: Mapping[str, int | None],
    changed: Sequence[str],
) -> PriceChange:
    action = "update"
    if not (is_priced(old) and is_priced(new)):
        action = "create" if is_priced(new) else "delete"
    return PriceChange(
        at=version.effective_from,
        model=version.price.model.name,
        action=action,
        before={} if action == "create" else {name: old[name] for name in changed},
        after={} if action == "delete" else {name: new[name] for name in changed},
    )


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

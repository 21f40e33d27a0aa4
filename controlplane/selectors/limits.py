"""Limits as a caller may see them, and how close traffic came to one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum, TextField, Value
from django.db.models.functions import Coalesce, Trunc

from controlplane.models import Key, Limit, Organisation, Project, UsageMinute
from controlplane.selectors.access import Access
from controlplane.selectors.subjects import visible_by_subject
from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow


def list_limits(access: Access) -> QuerySet[Limit]:
    """Limits with their `duplicates`: names of others, switched on, that count the very same."""
    same = Limit.objects.filter(
        organisation_id=OuterRef("organisation_id"),
        subject=OuterRef("subject"),
        unit=OuterRef("unit"),
        is_enabled=True,
    ).exclude(pk=OuterRef("pk"))
    for name in ("subject_id", "window"):
        # null is a value like any other here: each one apart, or no window
        own, theirs = _or_none(F(name)), _or_none(OuterRef(name))
        same = same.alias(**{f"own_{name}": own}).filter(**{f"own_{name}": theirs})
    rows = Limit.objects.annotate(duplicates=ArraySubquery(same.order_by("name").values("name")))
    return visible_by_subject(access, rows)


def _or_none(column: F | Subquery) -> Coalesce:
    return Coalesce(column, Value(""), output_field=TextField())


def list_same(
    organisation: Organisation,
    *,
    subject: str,
    subject_id: str | None,
    unit: str,
    window: str | None,
    besides: str | None,
) -> QuerySet[Limit]:
    """Limits of the organisation, switched on, that count this very same, but for one by its id."""
    rows = Limit.objects.filter(organisation=organisation, subject=subject, unit=unit)
    rows = rows.filter(is_enabled=True).exclude(pk=besides)
    for name, value in (("subject_id", subject_id), ("window", window)):
        rows = rows.filter(**{f"{name}__isnull": True} if value is None else {name: value})
    return rows.order_by("name")


def counting_key(rows: QuerySet[Limit], key: str) -> QuerySet[Limit]:
    """Those that count every request of a key, by its id or name.

    They are about it, its project, its team or the organisation, or about each of these. A key
    that isn't there is counted by what is about each, so nothing tells whether it is.
    """
    keys = Key.objects.filter(Q(pk=key) | Q(name=key), organisation_id=OuterRef("organisation_id"))
    places = {
        LimitSubject.KEY: "pk",
        LimitSubject.PROJECT: "project_id",
        LimitSubject.TEAM: "project__team_id",
    }
    wanted = Q(subject=LimitSubject.ORGANISATION.value)
    for subject, field in places.items():
        named = keys.values(field)
        wanted |= Q(subject=subject.value) & (Q(subject_id__isnull=True) | Q(subject_id__in=named))
    return rows.filter(wanted)


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that one subject used in one window. `subject_id` "" is none of that kind."""

    amount: int
    subject_id: str


_COLUMNS: Mapping[LimitUnit, str] = {
    LimitUnit.REQUESTS: "requests",
    LimitUnit.INPUT_TOKENS: "prompt_tokens",
    LimitUnit.OUTPUT_TOKENS: "completion_tokens",
}
_PLACES: Mapping[LimitSubject, str] = {
    LimitSubject.PROJECT: "project_id",
    LimitSubject.MODEL: "model_id",
    LimitSubject.ROUTE: "route_id",
}
_BUCKETS: Mapping[LimitWindow, str] = {LimitWindow.MINUTE: "minute", LimitWindow.HOUR: "hour"}


def get_peak(
    access: Access,
    organisation: Organisation,
    *,
    since: datetime,
    subject: LimitSubject,
    subject_id: str | None,
    unit: LimitUnit,
    window: LimitWindow | None,
) -> Peak | None:
    """The busiest window of a subject since then, from the roll-ups by the minute.

    None where these can't tell: keys and end users, what runs at once, seconds, and to roles that
    don't read the whole organisation. A day is taken as all that came since then.
    """
    is_counted = subject not in (LimitSubject.KEY, LimitSubject.END_USER)
    is_told = is_counted and window not in (None, LimitWindow.SECOND)
    if not is_told or not access.reads_organisation(organisation.pk):
        return None
    rows = UsageMinute.objects.filter(organisation_id=organisation.pk, minute__gte=since)
    rows = _placed(rows, subject)
    if subject_id is not None:
        rows = rows.filter(place=subject_id)
    names = ["place"]
    if window in _BUCKETS:
        rows = rows.annotate(bucket=Trunc("minute", _BUCKETS[window], tzinfo=UTC))
        names.append("bucket")
    used = (
        Sum(F("prompt_tokens") + F("completion_tokens"))
        if unit is LimitUnit.TOTAL_TOKENS
        else Sum(_COLUMNS[unit])
    )
    found = rows.values(*names).annotate(used=used).order_by("-used").first()
    return Peak(0, "") if found is None else Peak(int(found["used"] or 0), str(found["place"]))


def _placed(rows: QuerySet[UsageMinute], subject: LimitSubject) -> QuerySet[UsageMinute]:
    """Rows with `place`, the id of the subject they count for."""
    if subject is LimitSubject.ORGANISATION:
        return rows.annotate(place=F("organisation_id"))
    if subject is LimitSubject.TEAM:
        teams = Project.objects.filter(pk=OuterRef("project_id")).values("team_id")
        return rows.annotate(place=_or_none(Subquery(teams[:1])))
    return rows.annotate(place=F(_PLACES[subject]))

"""Repricings and corrections as a caller may see them, and the ledger's rows they are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet, Sum

from controlplane.decisions.repricing import Attempt, Book, Place
from controlplane.models import (
    Charge,
    PriceVersion,
    Repricing,
    Request,
    SpendCorrection,
    UsageHour,
)
from controlplane.selectors.access import Access
from controlplane.selectors.usage_queries import whole_hours
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Endpoint

_LATEST = timedelta(days=2)
"""No request ends later after it came than this."""

_EARLIEST = timedelta(days=1)
"""Nor, where clocks differ, earlier before it came."""


def list_repricings(access: Access) -> QuerySet[Repricing]:
    """Repricings of organisations the caller reads all of."""
    return access.visible_organisation_wide(Repricing.objects.all())


def list_corrections(access: Access) -> QuerySet[SpendCorrection]:
    """Corrections of organisations the caller reads all of."""
    return access.visible_organisation_wide(SpendCorrection.objects.all())


@dataclass(frozen=True, slots=True)
class Priced:
    """A request of the ledger with its attempts, in order."""

    request: Request
    attempts: Sequence[Attempt]


def get_book(organisation_id: str, as_of: datetime) -> Book:
    """All versions that had been written then, by model and pool."""
    book: dict[Place, list[Any]] = {}
    versions = PriceVersion.objects.filter(
        organisation_id=organisation_id, created_at__lte=as_of
    ).select_related("price")
    for one in versions:
        book.setdefault((one.price.model_id, one.price.pool_id), []).append(one)
    return book


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of the ledger: its requests that a repricing is of, and where the next begins."""

    requests: Sequence[Priced]
    cursor: Sequence[str] | None
    is_last: bool


def estimate_requests(job: Repricing) -> int:
    """About how many requests a repricing looks at: those of the hours it touches."""
    zone = ZoneInfo(job.organisation.time_zone)
    since, until = whole_hours(job.since, job.until, zone)
    team, project = job.scope.get("team_id"), job.scope.get("project_id")
    rows = UsageHour.objects.filter(
        organisation_id=job.organisation_id,
        hour__gte=since,
        hour__lt=until,
        dimension="team" if team else "project",
    )
    rows = rows.filter(value=team) if team else rows
    rows = rows.filter(project_id=project) if project else rows
    return int(rows.aggregate(sum=Sum("requests"))["sum"] or 0)


def list_next(job: Repricing, most: int) -> Page:
    """The next stretch after a repricing's cursor, in the order in which requests ended.

    As long a stretch whatever the repricing is of, so that each is read in about the same time.
    """
    since, until = job.since - _EARLIEST, job.until + _LATEST
    rows = Request.objects.filter(organisation_id=job.organisation_id, at__lt=until)
    after = Q(at__gte=since)
    if job.cursor:
        since, event_id = datetime.fromisoformat(job.cursor[0]), job.cursor[1]
        after = Q(at__gte=since) & (Q(at__gt=since) | Q(event_id__gt=event_id))
    days = {"day__gte": since.astimezone(UTC).date(), "day__lte": until.astimezone(UTC).date()}
    found = rows.filter(after, **days).order_by("at", "event_id").defer("decision")
    looked = list(found[:most])
    wanted = [one for one in looked if _is_wanted(job, one)]
    return Page(
        [Priced(one, attempts) for one, attempts in _with_attempts(wanted)],
        [looked[-1].at.isoformat(), looked[-1].event_id] if looked else None,
        len(looked) < most,
    )


def _is_wanted(job: Repricing, request: Request) -> bool:
    team, project = job.scope.get("team_id"), job.scope.get("project_id")
    return (
        job.since <= request.received_at < job.until
        and request.recorded_at <= job.created_at
        and request.attempts > 0
        and team in (None, "", request.team_id)
        and project in (None, "", request.project_id)
    )


def in_scope(job: Repricing, attempt: Attempt) -> bool:
    """Whether a repricing changes this attempt."""
    model, pool = job.scope.get("model_id"), job.scope.get("pool_id")
    return (not model or attempt.model_id == model) and (not pool or attempt.pool_id == pool)


def _with_attempts(
    requests: Sequence[Request],
) -> Sequence[tuple[Request, Sequence[Attempt]]]:
    ids = [one.event_id for one in requests]
    days = sorted({one.day for one in requests})
    charges: dict[tuple[date, str], list[Charge]] = {}
    for charge in Charge.objects.filter(day__in=days, event_id__in=ids).order_by("attempt"):
        charges.setdefault((charge.day, charge.event_id), []).append(charge)
    corrected = _corrected(ids)
    return [
        (
            one,
            [
                _attempt(one, charge, corrected)
                for charge in charges.get((one.day, one.event_id), ())
            ],
        )
        for one in requests
    ]


def _corrected(ids: Sequence[str]) -> Mapping[tuple[str, int], int]:
    rows = SpendCorrection.objects.filter(event_id__in=ids, attempt__isnull=False)
    sums = rows.values_list("event_id", "attempt").annotate(total=Sum("amount_nanousd"))
    return {(event_id, attempt): int(total) for event_id, attempt, total in sums.order_by()}


def _attempt(request: Request, charge: Charge, corrected: Mapping[tuple[str, int], int]) -> Attempt:
    place = (charge.event_id, charge.attempt)
    usage = Usage(
        charge.prompt_tokens,
        charge.completion_tokens,
        charge.cached_tokens,
        charge.reasoning_tokens,
    )
    return Attempt(
        event_id=charge.event_id,
        attempt=charge.attempt,
        pool_id=charge.pool_id,
        model_id=charge.model_id,
        endpoint=Endpoint(request.endpoint),
        kind=ChargeKind(charge.kind),
        usage=usage,
        error_code=charge.error_code,
        received_at=request.received_at,
        booked=charge.cost_nanousd,
        corrected=corrected.get(place, 0),
        is_known=charge.cost_nanousd is not None or place in corrected,
    )

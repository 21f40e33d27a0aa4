"""Repricings and corrections as a caller may see them, and the ledger's rows they are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Sum

from controlplane.decisions.repricing import Attempt, Book, Place
from controlplane.models import Charge, PriceVersion, Repricing, Request, SpendCorrection
from controlplane.selectors.access import Access
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Endpoint

_LATEST = timedelta(days=2)
"""No request ends later after it came than this."""


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


def _in_period(job: Repricing) -> QuerySet[Request]:
    first = job.since.astimezone(UTC).date() - timedelta(days=1)
    last = (job.until + _LATEST).astimezone(UTC).date()
    found = Request.objects.filter(
        organisation_id=job.organisation_id,
        day__gte=first,
        day__lte=last,
        received_at__gte=job.since,
        received_at__lt=job.until,
        recorded_at__lte=job.created_at,
        attempts__gt=0,
    )
    for name in ("team_id", "project_id"):
        if job.scope.get(name):
            found = found.filter(**{name: job.scope[name]})
    return found


def count_requests(job: Repricing) -> int:
    """How many requests a repricing looks at."""
    return _in_period(job).count()


def list_next(job: Repricing, most: int) -> Sequence[Priced]:
    """The requests after a repricing's cursor, by day and id, with the attempts in its scope."""
    rows = _in_period(job).order_by("day", "event_id")
    if job.cursor:
        day, event_id = date.fromisoformat(job.cursor[0]), job.cursor[1]
        # a comparison of rows is a condition of the primary key, and the day chooses partitions
        rows = rows.filter(day__gte=day, pk__gt=(day, event_id))
    requests = list(rows.defer("decision")[:most])
    return [Priced(one, attempts) for one, attempts in _with_attempts(requests)]


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

"""Repricing: asked for, summed by a job, and booked as corrections once somebody says so.

Each step of the job is one transaction that moves the cursor with what it did, so whoever goes on
after it ended does nothing twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.decisions.repricing import Book, Repriced, Side, Sums, becomes_known, reprice
from controlplane.errors import Conflict, Invalid, NotFound, VersionMismatch
from controlplane.models import Organisation, Repricing, RepricingState, SpendCorrection
from controlplane.selectors.repricings import (
    Priced,
    estimate_requests,
    get_book,
    in_scope,
    list_next,
)
from controlplane.services import audit
from controlplane.services.actors import Actor
from controlplane.services.corrections import book

PAGE = 500
"""So many requests a transaction, for recorders wait for what it holds."""
LEAST_PAGE = 10
SLOW = "The database takes too long for a page of it: smaller ones are tried."
TOO_SLOW = "The database takes too long for the smallest page of it: it is tried again and again."
LONGEST = timedelta(days=100)
SCOPES = ("team_id", "project_id", "model_id", "pool_id")
LOCK = 0x4857_5250 + 1
"""Key of the advisory lock of repricings' jobs, the same for every process."""

_AGAIN = "again"
"""Beside the sums that were looked at: those of now, until the last page of them is done."""

_AT_WORK = (RepricingState.QUEUED, RepricingState.SUMMING, RepricingState.BOOKING)


@contextmanager
def sole_job() -> Iterator[bool]:
    """Whether no other job is at work on repricings; as long as this lasts none will be."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        (is_sole,) = cursor.fetchone()
    try:
        yield is_sole
    finally:
        if is_sole:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def request_repricing(
    actor: Actor,
    *,
    organisation: Organisation,
    since: datetime,
    until: datetime,
    scope: Mapping[str, str],
) -> Repricing:
    """Have the requests of a time priced at the book as it is now; nothing is booked by this.

    Needs the actor's reason. Raises Invalid.
    """
    if not actor.reason:
        raise Invalid.field("reason", "Say why; it is kept in the audit log.")
    if until <= since:
        raise Invalid.field("until", "It must be after `since`.")
    if until > timezone.now():
        raise Invalid.field("until", "Only what came already can be summed: give a past time.")
    if until - since > LONGEST:
        raise Invalid.field("since", f"Give {LONGEST.days} days at most.")
    with transaction.atomic():
        job = Repricing.objects.create(
            organisation=organisation,
            created_by=actor.label[:255],
            reason=actor.reason,
            since=since,
            until=until,
            scope={name: value for name, value in scope.items() if name in SCOPES and value},
        )
        _note(actor, "create", job, after={"since": since, "until": until, **job.scope})
    return job


def book_repricing(
    actor: Actor, *, repricing_id: str, expected_version: int | None = None
) -> Repricing:
    """Have the corrections written that were summed; raises Conflict unless it waits for that.

    First it is summed again: it is ready once more, and nothing is booked, if that differs from
    what was looked at. One of an organisation is booked at a time, as each changes others' sums.
    """
    with transaction.atomic():
        job = _lock(repricing_id, expected_version)
        if job.state != RepricingState.READY:
            raise Conflict(f"It is {job.get_state_display().lower()}, not ready to be booked.")
        homes = Organisation.objects.select_for_update(no_key=True)
        booking = homes.get(pk=job.organisation_id).repricings.filter(state=RepricingState.BOOKING)
        if booking.exists():
            raise Conflict("Another repricing is being booked: wait for its end.")
        _move(
            job,
            state=RepricingState.BOOKING,
            sums={**job.sums, _AGAIN: {}},
            detail="",
            cursor=None,
            done=0,
            booked_by=actor.label[:255],
            beat_at=timezone.now(),
        )
        total = job.sums.get("total", {})
        _note(actor, "book", job, after={"total": total})
    return job


def discard_repricing(
    actor: Actor, *, repricing_id: str, expected_version: int | None = None
) -> Repricing:
    """Book nothing of it; raises Conflict once booking has begun."""
    with transaction.atomic():
        job = _lock(repricing_id, expected_version)
        if job.state not in (RepricingState.QUEUED, RepricingState.SUMMING, RepricingState.READY):
            raise Conflict(f"It is {job.get_state_display().lower()} already.")
        _move(job, state=RepricingState.DISCARDED, ended_at=timezone.now())
        _note(actor, "discard", job)
    return job


def take_next() -> str | None:
    """The id of the repricing that has waited longest for a job; it is the last to be next."""
    waiting = Repricing.objects.filter(state__in=_AT_WORK)
    job = waiting.order_by(F("beat_at").asc(nulls_first=True), "created_at").first()
    if job is None:
        return None
    Repricing.objects.filter(pk=job.pk).update(beat_at=timezone.now())
    return job.pk


def step(repricing_id: str) -> bool:
    """Do the next page of a repricing in one transaction; False once there is nothing to do."""
    with transaction.atomic():
        job = _lock(repricing_id, None)
        if job.state not in _AT_WORK:
            return False
        now = timezone.now()
        if job.state == RepricingState.QUEUED:
            _move(job, state=RepricingState.SUMMING, total=estimate_requests(job), beat_at=now)
        found = list_next(job, job.page)
        page = found.requests
        prices = get_book(job.organisation_id, job.created_at)
        if job.state == RepricingState.SUMMING:
            job.sums = _summed(job, job.sums, page, prices)
        elif _AGAIN in job.sums:
            again = _summed(job, job.sums[_AGAIN], page, prices)
            job.sums = {**job.sums, _AGAIN: again}
        else:
            _book(job, page, prices, now)
        job.cursor = found.cursor or job.cursor
        job.done += len(page)
        job.total = max(job.total, job.done)
        if job.detail in (SLOW, TOO_SLOW):
            job.detail = ""
        if found.is_last:
            _conclude(job, now)
        _move(job, beat_at=now, page=min(2 * job.page, PAGE))
        return job.state in _AT_WORK


def slow_down(repricing_id: str) -> None:
    """Have the next page be half as long, and say so: the last one took too long."""
    with transaction.atomic():
        job = _lock(repricing_id, None)
        if job.state in _AT_WORK:
            is_least = job.page <= LEAST_PAGE
            page = max(job.page // 2, LEAST_PAGE)
            _move(job, page=page, detail=TOO_SLOW if is_least else SLOW)


def give_up(repricing_id: str, detail: str) -> None:
    """End a repricing that can't be done, and say why; what is booked of it stays booked."""
    Repricing.objects.filter(pk=repricing_id, state__in=_AT_WORK).update(
        state=RepricingState.FAILED, detail=detail, ended_at=timezone.now()
    )


def _conclude(job: Repricing, now: datetime) -> None:
    """Go over to what follows once the last page is done."""
    job.total = job.done
    if job.state == RepricingState.SUMMING:
        job.state = RepricingState.READY
        return
    if _AGAIN not in job.sums:
        job.state, job.ended_at = RepricingState.DONE, now
        return
    seen = dict(job.sums)
    again = seen.pop(_AGAIN)
    job.sums = again
    if again == seen:
        job.cursor, job.done = None, 0
        return
    job.state, job.booked_by = RepricingState.READY, ""
    job.detail = "What is booked of it has changed since it was summed: look at the sums again."


def _summed(
    job: Repricing, so_far: Mapping[str, Any], page: Sequence[Priced], prices: Book
) -> dict[str, Any]:
    """Sums as they are stored, with a page more."""
    sums = _sums_of(so_far)
    for priced in page:
        for attempt in priced.attempts:
            if in_scope(job, attempt):
                sums.add(priced.request.team_id, reprice(prices, attempt))
    return asdict(sums)


def _book(job: Repricing, page: Sequence[Priced], prices: Book, now: datetime) -> None:
    rows = [row for priced in page for row in _corrections_of(job, priced, prices, now)]
    written = book(rows, now=now) if rows else ()
    job.corrections += len(written)
    job.corrected_nanousd += sum(one.amount_nanousd for one in written)


def _corrections_of(
    job: Repricing, priced: Priced, prices: Book, now: datetime
) -> Iterator[SpendCorrection]:
    found = [
        reprice(prices, one) if in_scope(job, one) else Repriced(one, None, None)
        for one in priced.attempts
    ]
    request, is_known = priced.request, becomes_known(found)
    for one in found:
        # a request counts as one of unknown cost where its last attempt was
        closes = is_known and one is found[-1]
        if not one.is_change and not closes:
            continue
        yield SpendCorrection(
            organisation_id=job.organisation_id,
            day=request.day,
            at=request.at,
            received_at=request.received_at,
            booked_at=now,
            repricing_id=job.pk,
            event_id=one.attempt.event_id,
            attempt=one.attempt.attempt,
            team_id=request.team_id,
            project_id=request.project_id,
            key_id=request.key_id,
            route_id=request.route_id or "",
            pool_id=one.attempt.pool_id,
            model_id=one.attempt.model_id,
            end_user=request.end_user,
            tags=request.tags,
            version_id=one.version_id,
            amount_nanousd=one.delta,
            was_unknown=one.attempt.cost is None,
            is_request_known=closes,
            reason=job.reason,
            created_by=job.booked_by,
        )


def _sums_of(stored: Mapping[str, Any]) -> Sums:
    if not stored:
        return Sums()
    return Sums(
        Side(**stored["total"]),
        {name: Side(**one) for name, one in stored["by_team"].items()},
        {name: Side(**one) for name, one in stored["by_model"].items()},
    )


def _lock(pk: str, expected_version: int | None) -> Repricing:
    job = Repricing.objects.select_for_update().filter(pk=pk).first()
    if job is None:
        raise NotFound
    if expected_version is not None and job.version != expected_version:
        raise VersionMismatch(job.version)
    return job


def _move(job: Repricing, **values: object) -> None:
    for name, value in values.items():
        setattr(job, name, value)
    job.version += 1
    job.save()


def _note(
    actor: Actor, action: str, job: Repricing, after: Mapping[str, object] | None = None
) -> None:
    audit.record(
        actor,
        action=action,
        noun="repricings",
        object_id=job.pk,
        organisation_id=job.organisation_id,
        after=after,
    )

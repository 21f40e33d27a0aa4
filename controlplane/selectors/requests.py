"""Reads of the ledger: one organisation's requests, newest first.

A role in a team reaches the requests of the projects that are the team's now.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet

from controlplane.errors import Invalid, NotFound
from controlplane.models import Charge, Request
from controlplane.selectors.access import Access

# What ended longer ago comes late, by the replay of a journal, and is seen on the next full read.
NEWS_WITHIN = timedelta(minutes=10)
# A batch is stamped before it is committed, and clocks of hosts differ a little.
COMMITTED_WITHIN = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class RequestPage:
    """Some requests, newest first. `older` is the cursor of the next ones, None at the end."""

    rows: Sequence[Request]
    older: str | None


def list_requests(access: Access, organisation_id: str) -> QuerySet[Request]:
    """An organisation's requests, newest first, without their decision records."""
    mine = _requests_of(access, organisation_id)
    return mine.defer("decision").order_by("-at", "-event_id")


def get_request(access: Access, organisation_id: str, event_id: str) -> Request:
    """One request with its decision record, or NotFound."""
    request = _requests_of(access, organisation_id).filter(event_id=event_id).first()
    if request is None:
        raise NotFound
    return request


def list_charges(access: Access, request: Request) -> QuerySet[Charge]:
    """A request's attempts in order."""
    charges = access.visible(Charge.objects.filter(organisation_id=request.organisation_id))
    return charges.filter(day=request.day, event_id=request.event_id).order_by("attempt")


def _requests_of(access: Access, organisation_id: str) -> QuerySet[Request]:
    requests = Request.objects.filter(organisation_id=organisation_id)
    return access.visible_in_scope(requests, project_field="project_id")


def within(
    requests: QuerySet[Request], *, since: datetime | None = None, until: datetime | None = None
) -> QuerySet[Request]:
    """Those that ended in the half-open range; only the partitions of its days are read."""
    if since is not None:
        requests = requests.filter(at__gte=since, day__gte=since.astimezone(UTC).date())
    if until is not None:
        requests = requests.filter(at__lt=until, day__lte=until.astimezone(UTC).date())
    return requests


def has_news(requests: QuerySet[Request], *, since: datetime, now: datetime) -> bool:
    """Whether any of these may have come in since a page was shown; cheap whatever the filters.

    Looks at what ended in the last NEWS_WITHIN alone. Errs towards yes: a row may become visible a
    little after the time it was recorded at.
    """
    recent = within(requests, since=now - NEWS_WITHIN)
    return recent.filter(recorded_at__gte=since - COMMITTED_WITHIN).exists()


def page_of_requests(requests: QuerySet[Request], cursor: str | None, size: int) -> RequestPage:
    """The page that begins after the cursor. Raises Invalid when the cursor isn't one of ours."""
    if cursor:
        at, event_id = read_cursor(cursor)
        requests = requests.filter(at__lte=at, day__lte=at.date()).filter(
            Q(at__lt=at) | Q(event_id__lt=event_id)
        )
    rows = list(requests[: size + 1])
    older = write_cursor(rows[size - 1]) if len(rows) > size else None
    return RequestPage(rows[:size], older)


def write_cursor(request: Request) -> str:
    """Where a page ends, as text for an address."""
    place = f"{request.at.isoformat()} {request.event_id}"
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """The time and id a cursor stands for; raises Invalid."""
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, event_id = place.partition(" ")
        time = datetime.fromisoformat(at).astimezone(UTC)
    except (binascii.Error, ValueError, OverflowError) as error:
        raise Invalid.field("cursor", "This is no cursor of this list.") from error
    if "\0" in event_id:
        raise Invalid.field("cursor", "This is no cursor of this list.")
    return time, event_id

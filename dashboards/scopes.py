"""What is watched: a page of an organisation, or of one of its pools or routes, over a window."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from controlplane.errors import Invalid, NotAllowed, NotFound
from controlplane.identifiers import ULID_PATTERN
from controlplane.models import Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.live import WINDOWS
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.pools import list_pools
from controlplane.selectors.routes import list_routes
from dashboards.kinds import Page

DEFAULT_WINDOW = "15m"

_ID = re.compile(rf"[a-z]+_{ULID_PATTERN}")
_PAGES = frozenset(page.value for page in Page)
_KNOWN = frozenset(("organisation", "window", "until"))
_ALL = "all"
_SUBJECTS: Mapping[str, Callable[[Access], QuerySet[Any]]] = {
    Page.POOL: list_pools,
    Page.ROUTE: list_routes,
}
"""Pages that are of one thing: its id is the parameter named as the page."""


@dataclass(frozen=True, slots=True)
class LiveScope:
    """One set of panels everybody who watches it shares.

    `subject_id` is the pool or route that the page is of, "" on the overview.
    """

    organisation_id: str
    page: Page
    subject_id: str
    window: str

    @property
    def pool_id(self) -> str | None:
        """The pool it is of, None if it is of none."""
        return self.subject_id if self.page is Page.POOL else None

    @property
    def route_id(self) -> str | None:
        """The route it is of, None if it is of none."""
        return self.subject_id if self.page is Page.ROUTE else None

    @property
    def name(self) -> str:
        """Its text, also the channel group's name: the organisation is in it."""
        subject = self.subject_id or _ALL
        return f"live.{self.organisation_id}.{self.page}.{subject}.{self.window}"

    @classmethod
    def named(cls, name: str) -> "LiveScope | None":
        """The scope of a name; None if it is none."""
        match name.split("."):
            case ["live", organisation_id, page, subject, window] if (
                page in _PAGES and window in WINDOWS
            ):
                return cls(organisation_id, Page(page), "" if subject == _ALL else subject, window)
        return None


def find_scope(access: Access, page: str, query: Mapping[str, str]) -> LiveScope:
    """The scope a reader asks for.

    Raises NotFound for another's, NotAllowed without a role of the whole organisation, Invalid for
    a window there is not and for parameters there are not.
    """
    known = _KNOWN | {page} if page in _SUBJECTS else _KNOWN
    unknown = sorted(set(query) - known)
    if unknown:
        raise Invalid.field(unknown[0], "There is no such parameter.")
    window = query.get("window") or DEFAULT_WINDOW
    if window not in WINDOWS:
        raise Invalid.field("window", f"Choose one of {', '.join(WINDOWS)}.")
    if page not in _PAGES:
        raise NotFound
    organisation = find_organisation(access, query.get("organisation", ""))
    if not access.reads_organisation(organisation.pk):
        raise NotAllowed("Live figures are for roles of the whole organisation.")
    subject_id = ""
    if page in _SUBJECTS:
        subject_id = query.get(page, "")
        rows = _SUBJECTS[page](access).filter(organisation_id=organisation.pk, pk=subject_id)
        if not _ID.fullmatch(subject_id) or not rows.exists():
            raise NotFound
    return LiveScope(organisation.pk, Page(page), subject_id, window)


def find_organisation(access: Access, organisation_id: str) -> Organisation:
    """The organisation of this id, if the reader knows of it; raises NotFound."""
    if not _ID.fullmatch(organisation_id):
        raise NotFound
    found = list_organisations(access).filter(pk=organisation_id).first()
    if found is None:
        raise NotFound
    return found


def read_until(query: Mapping[str, str]) -> datetime | None:
    """The end a historical page asks for, None for a live one; raises Invalid."""
    text = query.get("until", "")
    if not text:
        return None
    try:
        # a plus sign that was not escaped arrives as a space
        found = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError as error:
        raise Invalid.field("until", "Give a time like 2026-11-30T14:32:00Z.") from error
    if found.tzinfo is None:
        raise Invalid.field("until", "Say which zone the time is in, like 2026-11-30T14:32:00Z.")
    return found.astimezone(UTC)

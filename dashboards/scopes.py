"""What is watched: a page of an organisation, of one pool or of all, over a window."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.errors import Invalid, NotAllowed, NotFound
from controlplane.identifiers import ULID_PATTERN
from controlplane.models import Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.live import WINDOWS
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.pools import list_pools
from dashboards.kinds import Page

DEFAULT_WINDOW = "15m"

_ID = re.compile(rf"[a-z]+_{ULID_PATTERN}")
_PAGES = frozenset(page.value for page in Page)
_KNOWN = frozenset(("organisation", "window", "until"))


@dataclass(frozen=True, slots=True)
class LiveScope:
    """One set of panels everybody who watches it shares. `pool_id` is "" for all pools."""

    organisation_id: str
    page: Page
    pool_id: str
    window: str

    @property
    def name(self) -> str:
        """Its text, also the channel group's name: the organisation is in it."""
        return f"live.{self.organisation_id}.{self.page}.{self.pool_id or 'all'}.{self.window}"

    @classmethod
    def named(cls, name: str) -> "LiveScope | None":
        """The scope of a name; None if it is none."""
        match name.split("."):
            case ["live", organisation_id, page, pool_id, window] if (
                page in _PAGES and window in WINDOWS
            ):
                return cls(organisation_id, Page(page), "" if pool_id == "all" else pool_id, window)
        return None


def find_scope(access: Access, page: str, query: Mapping[str, str]) -> LiveScope:
    """The scope a reader asks for.

    Raises NotFound for another's, NotAllowed without a role of the whole organisation, Invalid for
    a window there is not and for parameters there are not.
    """
    known = _KNOWN | {"pool"} if page == Page.POOL else _KNOWN
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
    pool_id = ""
    if page == Page.POOL:
        pool_id = query.get("pool", "")
        rows = list_pools(access).filter(organisation_id=organisation.pk, pk=pool_id)
        if not _ID.fullmatch(pool_id) or not rows.exists():
            raise NotFound
    return LiveScope(organisation.pk, Page(page), pool_id, window)


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

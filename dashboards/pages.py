"""What the templates of live pages are told. Figures come later, by script."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from controlplane.errors import Invalid
from controlplane.selectors.live import WINDOWS
from dashboards.base import Panel
from dashboards.kinds import Page, PanelKind
from dashboards.registry import panels_of
from dashboards.scopes import DEFAULT_WINDOW, read_until
from dashboards.sources import Origin
from dashboards.tiles import tiles_of

_WINDOW_WORDS = {
    "5m": "Last 5 min",
    "15m": "Last 15 min",
    "1h": "Last hour",
    "6h": "Last 6 hours",
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
}
# so that every row of a page is full; beside a wide one the overview has its lists
_WIDE = {
    Page.OVERVIEW: frozenset((PanelKind.REQUESTS, PanelKind.COST, PanelKind.CACHE_HITS)),
    Page.POOL: frozenset((PanelKind.REQUESTS, PanelKind.COST)),
    Page.ROUTE: frozenset((PanelKind.REQUESTS, PanelKind.COST)),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A panel's place on a page; `width` is in twelfths."""

    name: str
    title: str
    unit: str
    width: int


def live_context(page: Page, organisation_id: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Context of `dashboards/live.html`; raises Invalid for a bad window or end."""
    return _context(page, organisation_id, "", query)


def part_live_context(
    page: Page, organisation_id: str, subject_id: str, query: Mapping[str, str]
) -> dict[str, Any]:
    """Context of `dashboards/tab.html`, the Live tab of a pool or route the reader may see.

    `query` is the page's GET parameters: `window`, and `until` for a historical page. Raises
    Invalid for values of those that mean nothing.
    """
    return _context(page, organisation_id, subject_id, query)


def _context(
    page: Page, organisation_id: str, subject_id: str, query: Mapping[str, str]
) -> dict[str, Any]:
    window = query.get("window") or DEFAULT_WINDOW
    if window not in WINDOWS:
        raise Invalid.field("window", f"Choose one of {', '.join(WINDOWS)}.")
    until = read_until(query)
    asked = {"organisation": organisation_id, "window": window}
    if subject_id:
        asked[page.value] = subject_id
    if until is not None:
        asked["until"] = until.isoformat()
    origin = Origin(page, organisation_id, subject_id, window, until)
    return {
        "live_page": page.value,
        "live_query": urlencode(asked),
        "live_document_url": reverse("live-document", args=[page.value]),
        "live_socket_path": f"/ws/live/{page}/",
        "live_is_historical": until is not None,
        "live_windows": [(key, _WINDOW_WORDS[key], key == window) for key in WINDOWS],
        "live_tiles": [(tile, origin.link(tile.source)) for tile in tiles_of(page)],
        "live_panels": [_frame(page, panel) for panel in panels_of(page)],
    }


def _frame(page: Page, panel: Panel) -> Frame:
    width = 8 if panel.kind in _WIDE[page] else 4
    return Frame(panel.kind, panel.titles[page], panel.unit, width)

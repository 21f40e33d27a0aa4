"""The tiles of service levels: the routes that are worst off with their objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.models import Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.routes import list_routes
from controlplane.selectors.service_levels import Level, read_levels

MOST_TILES = 6
"""A row of them; the page of service levels has all."""

MOST_READ = 200


@dataclass(frozen=True, slots=True)
class LevelTile:
    """One route: what is left of its error budget, and what goes of it now."""

    route_id: str
    name: str
    text: str
    note: str
    tone: str


def level_tiles(access: Access, organisation: Organisation, now: datetime) -> Sequence[LevelTile]:
    """The routes of which something is known, those with the least left first."""
    routes = list_routes(access).filter(organisation_id=organisation.pk, is_enabled=True)
    found = read_levels(list(routes.order_by("name")[:MOST_READ]), now)
    known = [one for one in found if one.left_percent is not None]
    known.sort(key=lambda one: (one.left_percent or 0.0, one.route.name))
    return [_tile(one) for one in known[:MOST_TILES]]


def _tile(level: Level) -> LevelTile:
    left = level.left_percent or 0.0
    burn = "idle now" if level.burn is None else f"burn rate {level.burn.rate:,.1f}"
    answered = level.availability_percent or 0.0
    return LevelTile(
        route_id=level.route.pk,
        name=level.route.name,
        text=f"{left:,.0f}".replace("-", "\N{MINUS SIGN}"),
        note=f"{answered:.2f} %, {burn}",
        tone="crit" if left < 0 else "",
    )

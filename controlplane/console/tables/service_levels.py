"""The table of service levels, and its figures in words."""

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.details import State
from controlplane.console.lists import NUMBER, UNKNOWN, NameColumn, NounTable
from controlplane.console.nouns import ROUTES
from controlplane.console.tables.alerts import chip
from controlplane.decisions.service_levels import Objective, objective_words
from controlplane.models import Route
from controlplane.selectors.service_levels import Level, objectives

MINUS = "\N{MINUS SIGN}"
FAST_BURN = 14.4
"""At this a month's error budget is gone in two days."""


def state_of_level(level: Level) -> State:
    """How a route stands with its objectives."""
    if level.left_percent is None:
        return State("Too little is known", "nodata", "idle")
    if level.burn is not None and level.burn.rate >= FAST_BURN:
        return State("Missed fast", "crit", "crit")
    if level.left_percent < 0:
        return State("Overspent", "warn", "warn")
    if level.burn is not None and level.burn.rate > 1:
        return State("Missed now", "warn", "warn")
    return State("Kept", "ok", "ok")


def left_words(level: Level) -> str:
    """What is left of the error budget: `87 %`, a dash where nobody knows."""
    if level.left_percent is None:
        return UNKNOWN
    return f"{level.left_percent:,.0f} %".replace("-", MINUS)


class LevelTable(NounTable):
    """Routes with what they promise and how they keep it."""

    name = NameColumn(ROUTES, "Route", attrs={"td": {"class": "nw"}})
    state = Column("State", orderable=False, empty_values=(), attrs={"td": {"class": "nw"}})
    answered = Column(
        "Answered, 30 days",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "Answered"}},
    )
    p50 = Column(
        "First token, half",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "Half within"}},
    )
    p99 = Column(
        "First token, 99 in 100",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "99 in 100"}},
    )
    left = Column(
        "Error budget left",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "Budget left"}},
    )
    burn = Column(
        "Burn rate, 1 h",
        orderable=False,
        empty_values=(),
        attrs={**NUMBER, "td": {"class": "num", "data-l": "Burn rate"}},
    )

    caption = "Service levels"

    def __init__(self, data: Any, **options: Any) -> None:
        super().__init__(data, **options)
        self.levels: dict[str, Level] = {}

    def render_state(self, record: Route) -> SafeString:
        return chip(state_of_level(self.levels[record.pk]))

    def render_answered(self, record: Route) -> SafeString:
        percent = self.levels[record.pk].availability_percent
        shown = UNKNOWN if percent is None else f"{percent:.3f} %"
        return _beside(shown, record, Objective.AVAILABILITY)

    def render_p50(self, record: Route) -> SafeString:
        return _beside(_ms(self.levels[record.pk].p50_ms), record, Objective.P50)

    def render_p99(self, record: Route) -> SafeString:
        return _beside(_ms(self.levels[record.pk].p99_ms), record, Objective.P99)

    def render_left(self, record: Route) -> str:
        return left_words(self.levels[record.pk])

    def render_burn(self, record: Route) -> str:
        burn = self.levels[record.pk].burn
        return UNKNOWN if burn is None else f"{burn.rate:,.1f}\N{MULTIPLICATION SIGN}"


def _ms(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f} ms"


_BOUNDS = {
    Objective.AVAILABILITY: lambda one: one.availability_percent,
    Objective.P50: lambda one: one.p50_ms,
    Objective.P99: lambda one: one.p99_ms,
}


def _beside(shown: str, route: Route, objective: Objective) -> SafeString:
    """A figure beside what is promised of it."""
    promised = objectives(route)
    bound = _BOUNDS[objective](promised)
    if bound is None:
        return format_html('{} <span class="mut">no objective</span>', shown)
    unit = "%" if objective is Objective.AVAILABILITY else "ms"
    return format_html(
        '{} <span class="mut" title="{}">of {} {}</span>',
        shown,
        objective_words(objective, promised),
        f"{bound:g}" if unit == "%" else f"{bound:,}",
        unit,
    )

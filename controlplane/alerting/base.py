"""What a rule asks, at which moments, and what every measure promises to answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Protocol

from django.utils import timezone

from controlplane.bridge.conditions import Entries, entries_by_pool
from controlplane.bridge.vitals import Fleet, read_fleet
from controlplane.decisions.alert_kinds import AlertKind, NoData
from controlplane.decisions.alerts import Terms
from controlplane.models import AlertRule
from controlplane.selectors.alerts import (
    Place,
    places_of,
    places_of_pace,
    places_of_thresholds,
)

Values = Mapping[str, Sequence[float | None]]
"""By place a value a moment, None where nothing is known."""

MOST_PLACES = 1_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule watches: the same for its evaluation and its preview."""

    kind: str
    organisation_id: str | None
    scope: str
    scope_id: str | None
    window_s: int

    @classmethod
    def of(cls, rule: AlertRule) -> "Question":
        return cls(rule.kind, rule.organisation_id, rule.scope, rule.scope_id, rule.window_s)

    def places(
        self,
        at: datetime | None = None,
        *,
        firing: Collection[str] = frozenset(),
        least_percent: float = 0.0,
    ) -> Sequence[Place]:
        """Where it is watched then, now unless another time is said.

        Of more accounts of budgets than anybody looks at come those first that have passed a
        threshold of `least_percent` or more and aren't `firing` yet.
        """
        at = at or timezone.now()
        if self.kind == AlertKind.BUDGET_USED:
            found = places_of_thresholds(
                self.organisation_id,
                self.scope_id,
                at,
                firing=frozenset(firing),
                least_percent=least_percent,
            )
            return found[:MOST_PLACES]
        if self.kind == AlertKind.BUDGET_FORECAST:
            return places_of_pace(self.organisation_id, self.scope_id, at)[:MOST_PLACES]
        return places_of(self.organisation_id, self.scope, self.scope_id, at)[:MOST_PLACES]


def terms_of(rule: AlertRule) -> Terms:
    """What a rule asks for at places that have no threshold of their own."""
    return Terms(
        rule.threshold, rule.for_s, rule.clears_at, rule.critical_at, NoData(rule.on_no_data)
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """Moments, the last of them `until`, `step_s` apart; one moment alone has no step."""

    until: datetime
    step_s: int = 60
    steps: int = 1

    @property
    def moments(self) -> Sequence[datetime]:
        """All of them, the oldest first."""
        step = timedelta(seconds=self.step_s)
        return [self.until - step * back for back in range(self.steps - 1, -1, -1)]


class Facts:
    """What measures of one pass share: the fleet is read once, by the first who asks.

    Beside a value a measure may `say` what it was compared with, and why it is over.
    """

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def say(self, place_id: str, words: str) -> None:
        """Say something of the last moment at a place."""
        self._said[place_id] = words

    def said(self) -> Mapping[str, str]:
        """What the measure that was asked last said by place, and forget it."""
        said, self._said = self._said, {}
        return said

    @cached_property
    def fleet(self) -> Fleet | None:
        return read_fleet()

    @cached_property
    def entries(self) -> Entries | None:
        return entries_by_pool(self.fleet)


class Measure(Protocol):
    """Answers a question for places and moments; it reads and changes nothing.

    A kind without history knows the last moment alone. Whoever can't tell says None, never 0.
    """

    def __call__(
        self, question: Question, places: Sequence[Place], grid: Grid, facts: Facts
    ) -> Values: ...


def of_now(grid: Grid, values: Mapping[str, float | None]) -> Values:
    """Values of the last moment alone."""
    return {pk: (*[None] * (grid.steps - 1), value) for pk, value in values.items()}

"""When an alert fires and when it is over: one step of one place, and the same over a past.

A value at the threshold or above it breaches. What has breached without a break for the rule's time
fires. What fires is over once the value was clearly lower, by a tenth, for as long, a minute at
least: so a value that swings about the threshold is one alert. What fires for the third time
within an hour flaps: it takes a quarter of an hour to be over, so it is one alert as long as it
goes on. No data holds what is: it ends no alert, and no time counts that nobody looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

CLEAR_SHARE = 0.9
"""So far below the threshold a value must be to count as over."""

LEAST_CLEAR_S = 60

FLAPS = 3
FLAP_WINDOW = timedelta(hours=1)
FLAP_CLEAR = timedelta(minutes=15)
"""What fired so often in so long is flapping, and must be quiet for so long."""

GAP = timedelta(seconds=180)
"""Whoever was not looked at for longer is looked at anew: what was before proves nothing."""


class Verdict(StrEnum):
    """What follows from one look."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRE = "fire"
    KEEP = "keep"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a rule asks for."""

    threshold: float
    for_s: int
    clears_at: float | None = None

    @property
    def clear_below(self) -> float:
        return self.threshold * CLEAR_SHARE if self.clears_at is None else self.clears_at

    @property
    def clear_for(self) -> timedelta:
        return timedelta(seconds=max(self.for_s, LEAST_CLEAR_S))


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one place from the looks before."""

    is_firing: bool = False
    breached_since: datetime | None = None
    cleared_since: datetime | None = None
    seen_at: datetime | None = None
    fired_at: tuple[datetime, ...] = ()

    @property
    def is_flapping(self) -> bool:
        return len(self.fired_at) >= FLAPS


def judge(
    terms: Terms, standing: Standing, value: float | None, at: datetime
) -> tuple[Standing, Verdict]:
    """One look at one place; `value` None is no data."""
    if standing.seen_at is not None and at - standing.seen_at > GAP:
        standing = replace(standing, breached_since=None, cleared_since=None)
    if standing.is_firing:
        return _judge_firing(terms, standing, value, at)
    fired = tuple(one for one in standing.fired_at if at - one < FLAP_WINDOW)
    if value is None or value < terms.threshold:
        return Standing(seen_at=at, fired_at=fired), Verdict.QUIET
    since = standing.breached_since or at
    if at - since >= timedelta(seconds=terms.for_s):
        return Standing(is_firing=True, seen_at=at, fired_at=(*fired, at)), Verdict.FIRE
    return Standing(breached_since=since, seen_at=at, fired_at=fired), Verdict.PENDING


def _judge_firing(
    terms: Terms, standing: Standing, value: float | None, at: datetime
) -> tuple[Standing, Verdict]:
    fired = standing.fired_at
    if value is None or value >= terms.clear_below:
        return Standing(is_firing=True, seen_at=at, fired_at=fired), Verdict.KEEP
    since = standing.cleared_since or at
    clear_for = max(terms.clear_for, FLAP_CLEAR) if standing.is_flapping else terms.clear_for
    if at - since >= clear_for:
        return Standing(seen_at=at, fired_at=fired), Verdict.RESOLVE
    return replace(standing, cleared_since=since, seen_at=at), Verdict.KEEP


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time for which an alert would have fired; `until` None: it would still."""

    since: datetime
    until: datetime | None
    peak: float


def stretches_of(
    terms: Terms, values: Sequence[tuple[datetime, float | None]]
) -> Sequence[Stretch]:
    """The alerts of one place over past looks, in order, by the very same steps."""
    found: list[Stretch] = []
    standing = Standing()
    for at, value in values:
        standing, verdict = judge(terms, standing, value, at)
        if verdict is Verdict.FIRE:
            assert value is not None
            found.append(Stretch(at, None, value))
        elif verdict is Verdict.KEEP and value is not None:
            found[-1] = replace(found[-1], peak=max(found[-1].peak, value))
        elif verdict is Verdict.RESOLVE:
            found[-1] = replace(found[-1], until=at)
    return found

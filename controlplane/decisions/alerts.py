"""When an alert fires and when it is over: one step of one place, and the same over a past.

A value at the threshold or above it breaches. What has breached without a break for the rule's time
fires. What fires is over once the value was clearly lower, by a tenth, for as long, a minute at
least: so a value that swings about the threshold is one alert. What fires for the third time
within an hour flaps: it takes a quarter of an hour to be over, so it is one alert as long as it
goes on. What fires gets worse, once, when the value was at the graver threshold for the rule's
time too. No data holds what is, unless the rule says otherwise: it ends no alert, and no time
counts that nobody looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.decisions.alert_kinds import NoData

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
    WORSEN = "worsen"
    RESOLVE = "resolve"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a rule asks for; from `critical_at` on it is graver."""

    threshold: float
    for_s: int
    clears_at: float | None = None
    critical_at: float | None = None
    no_data: NoData = NoData.KEEP

    @property
    def clear_below(self) -> float:
        return self.threshold * CLEAR_SHARE if self.clears_at is None else self.clears_at

    def breaches(self, value: float | None) -> bool:
        """Whether a look is one of an alert."""
        if value is None:
            return self.no_data is NoData.ALERT
        return value >= self.threshold

    def clears(self, value: float | None) -> bool:
        """Whether a look is one of an alert's end."""
        if value is None:
            return self.no_data is NoData.RESOLVE
        return value < self.clear_below

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
    critical_since: datetime | None = None
    is_critical: bool = False

    @property
    def is_flapping(self) -> bool:
        return len(self.fired_at) >= FLAPS


def judge(
    terms: Terms, standing: Standing, value: float | None, at: datetime
) -> tuple[Standing, Verdict]:
    """One look at one place; `value` None is no data."""
    if standing.seen_at is not None and at - standing.seen_at > GAP:
        standing = replace(standing, breached_since=None, cleared_since=None, critical_since=None)
    critical_since = _critical_since(terms, standing, value, at)
    if standing.is_firing:
        return _judge_firing(terms, replace(standing, critical_since=critical_since), value, at)
    fired = tuple(one for one in standing.fired_at if at - one < FLAP_WINDOW)
    if not terms.breaches(value):
        return Standing(seen_at=at, fired_at=fired), Verdict.QUIET
    since = standing.breached_since or at
    found = Standing(seen_at=at, fired_at=fired, critical_since=critical_since)
    if at - since >= timedelta(seconds=terms.for_s):
        is_critical = _is_critical(terms, critical_since, at)
        fired = (*fired, at)
        found = replace(found, is_firing=True, fired_at=fired, is_critical=is_critical)
        return found, Verdict.FIRE
    return replace(found, breached_since=since), Verdict.PENDING


def _critical_since(
    terms: Terms, standing: Standing, value: float | None, at: datetime
) -> datetime | None:
    """Since when every look found the value at the graver threshold; None if this one didn't."""
    if terms.critical_at is None or value is None or value < terms.critical_at:
        return None
    return standing.critical_since or at


def _is_critical(terms: Terms, since: datetime | None, at: datetime) -> bool:
    return since is not None and at - since >= timedelta(seconds=terms.for_s)


def _judge_firing(
    terms: Terms, standing: Standing, value: float | None, at: datetime
) -> tuple[Standing, Verdict]:
    fired = standing.fired_at
    if not terms.clears(value):
        kept = replace(standing, cleared_since=None, seen_at=at)
        if not standing.is_critical and _is_critical(terms, standing.critical_since, at):
            return replace(kept, is_critical=True), Verdict.WORSEN
        return kept, Verdict.KEEP
    since = standing.cleared_since or at
    clear_for = max(terms.clear_for, FLAP_CLEAR) if standing.is_flapping else terms.clear_for
    if at - since >= clear_for:
        return Standing(seen_at=at, fired_at=fired), Verdict.RESOLVE
    return replace(standing, cleared_since=since, seen_at=at), Verdict.KEEP


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time for which an alert would have fired; `until` None: it would still.

    `peak` None: it fired because nothing was known. From `critical_since` on it was graver.
    """

    since: datetime
    until: datetime | None
    peak: float | None
    critical_since: datetime | None = None


def stretches_of(
    terms: Terms, values: Sequence[tuple[datetime, float | None]]
) -> Sequence[Stretch]:
    """The alerts of one place over past looks, in order, by the very same steps."""
    found: list[Stretch] = []
    standing = Standing()
    for at, value in values:
        standing, verdict = judge(terms, standing, value, at)
        if verdict is Verdict.FIRE:
            found.append(Stretch(at, None, value, at if standing.is_critical else None))
        elif verdict is Verdict.RESOLVE:
            found[-1] = replace(found[-1], until=at)
        elif verdict in (Verdict.KEEP, Verdict.WORSEN):
            found[-1] = _went_on(found[-1], verdict, value, at)
    return found


def _went_on(one: Stretch, verdict: Verdict, value: float | None, at: datetime) -> Stretch:
    if value is not None:
        one = replace(one, peak=max(one.peak or 0.0, value))
    return replace(one, critical_since=at) if verdict is Verdict.WORSEN else one

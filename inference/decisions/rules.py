"""Which rule of a route a request falls under: the first enabled one that fits it decides."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from inference.contract.kinds import Weekday
from inference.contract.params import MINUTES_A_DAY
from inference.contract.snapshot import (
    ExperimentRecord,
    KeyRecord,
    MatchRecord,
    RouteRecord,
    RuleRecord,
    ScheduleRecord,
)
from inference.contract.values import frozen
from inference.decisions.facts import RequestFacts, Standing

_WEEKDAYS = tuple(Weekday)


@frozen
class Circumstances:
    """All that rules look at. `at` is seconds since the epoch, read in `time_zone`."""

    facts: RequestFacts
    standing: Standing
    identity: KeyRecord
    at: float
    time_zone: str = "UTC"


def matching_rule(route: RouteRecord, case: Circumstances) -> RuleRecord | None:
    """The first enabled rule that fits, or None if the route's own targets serve."""
    for rule in route.rules:
        if rule.is_enabled and fits(rule.when, case):
            return rule
    return None


def fits(when: MatchRecord, case: Circumstances) -> bool:
    """Whether all that is given applies; nothing given applies to everything."""
    identity, standing, facts = case.identity, case.standing, case.facts
    return (
        _is_one(identity.id, when.key_ids)
        and _is_one(identity.team_id, when.team_ids)
        and _is_one(identity.project_id, when.project_ids)
        and _is_one(facts.model, when.aliases)
        and _is_one(standing.task, when.tasks)
        and _is_one(standing.priority, when.priorities)
        and (not when.tags or any(tag in when.tags for tag in standing.tags))
        and all(header in facts.headers for header in when.headers)
        and (when.prompt_tokens_min is None or facts.prompt_tokens >= when.prompt_tokens_min)
        and (when.prompt_tokens_max is None or facts.prompt_tokens <= when.prompt_tokens_max)
        and (when.schedule is None or is_within(when.schedule, case.at, case.time_zone))
    )


def is_within(schedule: ScheduleRecord, at: float, time_zone: str) -> bool:
    """Whether the clocks of that zone show a time of the schedule, at these epoch seconds.

    An hour that a change of clocks skips has no time in it, one that it repeats has it twice.
    """
    local = datetime.fromtimestamp(at, zone_of(time_zone))
    minute = local.hour * 60 + local.minute
    today = local.weekday()
    end = schedule.to_minute
    if end <= schedule.from_minute:
        end += MINUTES_A_DAY
    # what began yesterday may not be over
    return any(
        schedule.from_minute <= minute + ago * MINUTES_A_DAY < end
        and _is_one(_WEEKDAYS[today - ago], schedule.days)
        for ago in range(2)
    )


def headers_of(
    route: RouteRecord,
    experiments: Sequence[ExperimentRecord] = (),
    bypass: Sequence[MatchRecord] = (),
) -> frozenset[str]:
    """The headers that the rules of a route, these experiments on it, and what passes its caches
    by look at.
    """
    matches = [*(rule.when for rule in route.rules), *bypass]
    matches += [one.when for one in experiments if one.when is not None]
    return frozenset(name for when in matches for name, _ in when.headers)


def _is_one(value: object, wanted: Sequence[object]) -> bool:
    return not wanted or value in wanted


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> tzinfo:
    """The rules of a zone, from the tables of the system; one that isn't there is UTC."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return UTC

"""What the ends of requests add to the roll-ups.

An unknown is never added up as zero: a sum leaves it out and counts it in `unknown_usage` (by
attempt) or `unknown_cost` (by request).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from operator import itemgetter
from typing import NamedTuple

from controlplane.decisions.ledger import last_charge, stored_text, time_of
from inference.contract.events import Charge, End
from inference.decisions.outcomes import is_failure

DIMENSIONS = ("route", "pool", "model", "project", "team", "key")


@dataclass(slots=True)
class Sums:
    """What a roll-up row adds up: requests are counted once, all else per attempt."""

    requests: int = 0
    errors: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_nanousd: int = 0
    unknown_usage: int = 0
    unknown_cost: int = 0


class MinuteKey(NamedTuple):
    """Which row of the minute roll-up; an empty id stands for none."""

    organisation_id: str
    minute: datetime
    route_id: str
    pool_id: str
    model_id: str
    project_id: str


class DayKey(NamedTuple):
    """Which row of the day roll-up; days are UTC."""

    organisation_id: str
    day: date
    dimension: str
    value: str


class RuleKey(NamedTuple):
    """Which row of the roll-up by rule."""

    organisation_id: str
    minute: datetime
    route_id: str
    rule_id: str


@dataclass(frozen=True, slots=True)
class RollUps:
    """Increments in the order in which every writer must apply them; `rules` count requests."""

    minutes: tuple[tuple[MinuteKey, Sums], ...]
    rules: tuple[tuple[RuleKey, int], ...]
    days: tuple[tuple[DayKey, Sums], ...]


def roll_up(ends: Iterable[End]) -> RollUps:
    """Sum what these ends add to the roll-ups by minute, rule and day."""
    minutes: dict[MinuteKey, Sums] = defaultdict(Sums)
    days: dict[DayKey, Sums] = defaultdict(Sums)
    rules: dict[RuleKey, int] = defaultdict(int)
    for end in ends:
        if end.origin.rule_id is not None and end.origin.route_id is not None:
            rules[_rule_key(end, end.origin.route_id, end.origin.rule_id)] += 1
        last = last_charge(end)
        if last is None:
            _add(end, None, _with_request(end, Sums()), minutes, days)
        for charge in end.charges:
            sums = _charge_sums(charge)
            _add(end, charge, _with_request(end, sums) if charge is last else sums, minutes, days)
    return RollUps(
        minutes=tuple(sorted(minutes.items(), key=itemgetter(0))),
        rules=tuple(sorted(rules.items())),
        days=tuple(sorted(days.items(), key=itemgetter(0))),
    )


def _add(
    end: End,
    charge: Charge | None,
    sums: Sums,
    minutes: dict[MinuteKey, Sums],
    days: dict[DayKey, Sums],
) -> None:
    origin, at = end.origin, time_of(end.at_ms)
    organisation_id = stored_text(origin.organisation_id)
    route_id = stored_text(origin.route_id or "")
    pool_id = stored_text(charge.pool_id if charge else "")
    model_id = stored_text(charge.model_id if charge else "")
    project_id = stored_text(origin.project_id)
    minute = _minute_of(at)
    key = MinuteKey(organisation_id, minute, route_id, pool_id, model_id, project_id)
    _accumulate(minutes[key], sums)
    team_id, key_id = stored_text(origin.team_id), stored_text(origin.key_id)
    values = (route_id, pool_id, model_id, project_id, team_id, key_id)
    day = at.date()
    for dimension, value in zip(DIMENSIONS, values, strict=True):
        _accumulate(days[DayKey(organisation_id, day, dimension, value)], sums)


def _rule_key(end: End, route_id: str, rule_id: str) -> RuleKey:
    minute = _minute_of(time_of(end.at_ms))
    organisation_id = stored_text(end.origin.organisation_id)
    return RuleKey(organisation_id, minute, stored_text(route_id), stored_text(rule_id))


def _minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _with_request(end: End, sums: Sums) -> Sums:
    """Count the request itself, once, with its last attempt."""
    sums.requests = 1
    sums.errors = int(is_failure(end.outcome, end.http_status))
    sums.unknown_cost = int(any(charge.cost_nanousd is None for charge in end.charges))
    return sums


def _charge_sums(charge: Charge) -> Sums:
    usage = charge.usage
    is_unknown = usage.prompt_tokens is None or usage.completion_tokens is None
    return Sums(
        attempts=1,
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        cached_tokens=usage.cached_tokens or 0,
        cost_nanousd=charge.cost_nanousd or 0,
        unknown_usage=int(is_unknown),
    )


def _accumulate(total: Sums, more: Sums) -> None:
    total.requests += more.requests
    total.errors += more.errors
    total.attempts += more.attempts
    total.prompt_tokens += more.prompt_tokens
    total.completion_tokens += more.completion_tokens
    total.cached_tokens += more.cached_tokens
    total.cost_nanousd += more.cost_nanousd
    total.unknown_usage += more.unknown_usage
    total.unknown_cost += more.unknown_cost

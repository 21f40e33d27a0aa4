"""What the ends of requests add to the roll-ups.

An unknown is never added up as zero: a sum leaves it out and counts it in `unknown_usage` (by
attempt) or `unknown_cost` (by request). Hours and days are those of the organisation's clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from controlplane.decisions.ledger import last_charge, stored_text, time_of
from inference.contract.events import Charge, End
from inference.decisions.outcomes import is_failure

DIMENSIONS = ("route", "pool", "model", "project", "team", "key")
"""What hours and days are counted by."""

NAMED = ("tag", "end_user")
"""What callers name: there may be any number of it, so it is counted by day and up to a cap."""

MOST_NAMED = 1_000
"""So many tags, and so many end users, of one key's day are told apart; the rest is summed."""

_MINUTE_MS = 60_000

AnyKey = TypeVar("AnyKey", bound=tuple[object, ...])
AnySums = TypeVar("AnySums")

Zones = Mapping[str, tzinfo]
"""The organisations' zones, by id."""


class NamedKind(StrEnum):
    """What a row of the roll-up by caller-given names is of.

    A request with several tags counts under each of them: what it counts more than once is taken
    out again by REPEATED, so that all rows add up to what had a name.
    """

    NAMED = "named"
    OTHER = "other"
    REPEATED = "repeated"


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


_figures = attrgetter(*(one.name for one in fields(Sums)))


class MinuteKey(NamedTuple):
    """Which row of the minute roll-up; an empty id stands for none."""

    organisation_id: str
    minute: datetime
    route_id: str
    pool_id: str
    model_id: str
    project_id: str


class HourKey(NamedTuple):
    """Which row of the hour roll-up; `hour` is when an hour of the organisation's clock began."""

    organisation_id: str
    hour: datetime
    dimension: str
    value: str
    project_id: str


class DayKey(NamedTuple):
    """Which row of the day roll-up; days are the organisation's."""

    organisation_id: str
    day: date
    dimension: str
    value: str
    project_id: str


class NamedKey(NamedTuple):
    """Which row of the roll-up by caller-given names; `value` is "" but for NAMED."""

    organisation_id: str
    day: date
    dimension: str
    key_id: str
    kind: str
    value: str
    project_id: str


class PricedKey(NamedTuple):
    """Which row of the roll-up by price version; `version_id` is "" without a price."""

    organisation_id: str
    day: date
    version_id: str
    team_id: str
    project_id: str
    model_id: str
    pool_id: str


@dataclass(slots=True)
class PricedSums:
    """What is added up by price version: attempts, and those whose cost or tokens aren't known."""

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanousd: int = 0
    unpriced: int = 0
    unknown_usage: int = 0


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
    hours: tuple[tuple[HourKey, Sums], ...]
    days: tuple[tuple[DayKey, Sums], ...]
    named: tuple[tuple[NamedKey, Sums], ...]
    priced: tuple[tuple[PricedKey, PricedSums], ...]


NO_ZONES: Zones = {}


class _Cell(NamedTuple):
    """All that is alike in what is summed first."""

    organisation_id: str
    minute: datetime
    route_id: str
    pool_id: str
    model_id: str
    project_id: str
    team_id: str
    key_id: str


def roll_up(ends: Iterable[End], zones: Zones = NO_ZONES) -> RollUps:
    """Sum what these ends add to every roll-up; an organisation without a zone is told in UTC."""
    cells: dict[_Cell, Sums] = defaultdict(Sums)
    named: dict[NamedKey, Sums] = defaultdict(Sums)
    priced: dict[tuple[_Cell, str], PricedSums] = defaultdict(PricedSums)
    rules: dict[RuleKey, int] = defaultdict(int)
    known: dict[tuple[object, ...], _Cell] = {}
    for end in ends:
        if end.origin.rule_id is not None and end.origin.route_id is not None:
            rules[_rule_key(end, end.origin.route_id, end.origin.rule_id)] += 1
        is_named = bool(end.origin.tags) or bool(end.origin.end_user)
        last = last_charge(end)
        for charge in end.charges or (None,):
            sums = _charge_sums(charge) if charge else Sums()
            if charge is last:
                _with_request(end, sums)
            place = _place_of(end, charge)
            cell = known.get(place)
            if cell is None:
                cell = known[place] = _cell_of(end, charge)
            _accumulate(cells[cell], sums)
            if charge is not None:
                version = charge.price.price_id if charge.price else ""
                _add_priced(priced[cell, version], charge)
            if is_named:
                _add_named(end, cell, sums, zones, named)
    minutes, hours, days = _spread(cells, zones)
    return RollUps(
        minutes=_ordered(minutes),
        rules=tuple(sorted(rules.items())),
        hours=_ordered(hours),
        days=_ordered(days),
        named=_ordered(named),
        priced=_by_version(priced, zones),
    )


def _ordered(sums: Mapping[AnyKey, AnySums]) -> tuple[tuple[AnyKey, AnySums], ...]:
    return tuple(sorted(sums.items(), key=itemgetter(0)))


def _place_of(end: End, charge: Charge | None) -> tuple[object, ...]:
    """What decides on the cell of an attempt, as it came: many attempts are of one cell."""
    origin = end.origin
    return (
        end.at_ms // _MINUTE_MS,
        charge and charge.pool_id,
        charge and charge.model_id,
        origin.organisation_id,
        origin.route_id,
        origin.project_id,
        origin.team_id,
        origin.key_id,
    )


def _cell_of(end: End, charge: Charge | None) -> _Cell:
    origin = end.origin
    return _Cell(
        stored_text(origin.organisation_id),
        _minute_of(time_of(end.at_ms)),
        stored_text(origin.route_id or ""),
        stored_text(charge.pool_id if charge else ""),
        stored_text(charge.model_id if charge else ""),
        stored_text(origin.project_id),
        stored_text(origin.team_id),
        stored_text(origin.key_id),
    )


def _spread(
    cells: Mapping[_Cell, Sums], zones: Zones
) -> tuple[dict[MinuteKey, Sums], dict[HourKey, Sums], dict[DayKey, Sums]]:
    """The same sums by minute, by hour and by day."""
    minutes: dict[MinuteKey, Sums] = defaultdict(Sums)
    hours: dict[HourKey, Sums] = defaultdict(Sums)
    days: dict[DayKey, Sums] = defaultdict(Sums)
    for cell, sums in cells.items():
        _accumulate(minutes[MinuteKey(*cell[:6])], sums)
        organisation_id, project_id = cell.organisation_id, cell.project_id
        hour = hour_of(cell.minute, zones.get(organisation_id, UTC))
        for dimension, value in zip(DIMENSIONS, cell[2:], strict=True):
            _accumulate(hours[HourKey(organisation_id, hour, dimension, value, project_id)], sums)
    for key, sums in hours.items():
        day = day_of(key.hour, zones.get(key.organisation_id, UTC))
        _accumulate(
            days[DayKey(key.organisation_id, day, key.dimension, key.value, key.project_id)], sums
        )
    return minutes, hours, days


def _add_named(
    end: End, cell: _Cell, sums: Sums, zones: Zones, named: dict[NamedKey, Sums]
) -> None:
    """Count an attempt under its end user and under each of its tags."""
    day = day_of(cell.minute, zones.get(cell.organisation_id, UTC))
    tags = dict.fromkeys(stored_text(tag) for tag in end.origin.tags)
    users = [stored_text(end.origin.end_user)] if end.origin.end_user else []

    def add(dimension: str, kind: NamedKind, value: str, sums: Sums) -> None:
        place = (cell.organisation_id, day, dimension, cell.key_id)
        _accumulate(named[NamedKey(*place, kind.value, value, cell.project_id)], sums)

    for value in users:
        add("end_user", NamedKind.NAMED, value, sums)
    for value in tags:
        add("tag", NamedKind.NAMED, value, sums)
    for _ in range(len(tags) - 1):
        add("tag", NamedKind.REPEATED, "", _negative(sums))


def _add_priced(total: PricedSums, charge: Charge) -> None:
    total.attempts += 1
    total.prompt_tokens += charge.usage.prompt_tokens or 0
    total.completion_tokens += charge.usage.completion_tokens or 0
    total.cost_nanousd += charge.cost_nanousd or 0
    total.unpriced += charge.cost_nanousd is None
    total.unknown_usage += _is_unknown(charge)


def _by_version(
    cells: Mapping[tuple[_Cell, str], PricedSums], zones: Zones
) -> tuple[tuple[PricedKey, PricedSums], ...]:
    """The sums of cells and versions by day."""
    days: dict[PricedKey, PricedSums] = defaultdict(PricedSums)
    for (cell, version), sums in cells.items():
        home = cell.organisation_id
        total = days[
            PricedKey(
                home,
                day_of(cell.minute, zones.get(home, UTC)),
                stored_text(version),
                cell.team_id,
                cell.project_id,
                cell.model_id,
                cell.pool_id,
            )
        ]
        total.attempts += sums.attempts
        total.prompt_tokens += sums.prompt_tokens
        total.completion_tokens += sums.completion_tokens
        total.cost_nanousd += sums.cost_nanousd
        total.unpriced += sums.unpriced
        total.unknown_usage += sums.unknown_usage
    return _ordered(days)


def cap_named(
    named: Iterable[tuple[NamedKey, Sums]], refused: frozenset[NamedKey]
) -> tuple[tuple[NamedKey, Sums], ...]:
    """Sum what is `refused` for want of room as one row a key and day; the rest stays."""
    kept: dict[NamedKey, Sums] = defaultdict(Sums)
    for key, sums in named:
        place = key._replace(kind=NamedKind.OTHER.value, value="") if key in refused else key
        _accumulate(kept[place], sums)
    return _ordered(kept)


def hour_of(at: datetime, zone: tzinfo) -> datetime:
    """When the hour of a zone's clock began that this time is in, in UTC."""
    local = at.astimezone(zone)
    past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
    return at.astimezone(UTC) - past


def day_of(at: datetime, zone: tzinfo) -> date:
    """The day it is in a zone."""
    return at.astimezone(zone).date()


def _rule_key(end: End, route_id: str, rule_id: str) -> RuleKey:
    minute = _minute_of(time_of(end.at_ms))
    organisation_id = stored_text(end.origin.organisation_id)
    return RuleKey(organisation_id, minute, stored_text(route_id), stored_text(rule_id))


def _minute_of(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _negative(sums: Sums) -> Sums:
    return Sums(*(-one for one in _figures(sums)))


def _with_request(end: End, sums: Sums) -> Sums:
    """Count the request itself, once, with its last attempt."""
    sums.requests = 1
    sums.errors = int(is_failure(end.outcome, end.http_status))
    sums.unknown_cost = int(any(charge.cost_nanousd is None for charge in end.charges))
    return sums


def _is_unknown(charge: Charge) -> bool:
    return charge.usage.prompt_tokens is None or charge.usage.completion_tokens is None


def _charge_sums(charge: Charge) -> Sums:
    usage = charge.usage
    return Sums(
        attempts=1,
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        cached_tokens=usage.cached_tokens or 0,
        cost_nanousd=charge.cost_nanousd or 0,
        unknown_usage=int(_is_unknown(charge)),
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

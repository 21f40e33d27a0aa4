"""Rules of routes as people write and read them: documents, and their conditions in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inference.contract.kinds import Weekday
from inference.contract.params import MINUTES_A_DAY, TARGET_BOUNDS
from inference.contract.snapshot import MatchRecord, RuleRecord, ScheduleRecord, TargetRecord

REFERENCES: Mapping[str, str] = {"keys": "key_ids", "teams": "team_ids", "projects": "project_ids"}
"""Conditions that name rows, and where gateways find the ids."""

_KEY = "key_"
"""Gateways know a key without the prefix its id has everywhere else."""

_WEEKDAYS = tuple(day.value for day in Weekday)


def document_of(rule: RuleRecord) -> dict[str, Any]:
    """A rule in the shape the API takes it in, references as ids."""
    return {
        "id": rule.id,
        "name": rule.name,
        "is_enabled": rule.is_enabled,
        "when": when_document(rule.when),
        "targets": [target_document(one) for one in rule.targets],
    }


def when_document(when: MatchRecord) -> dict[str, Any]:
    """Conditions in the shape of the API; all of them, empty where they aren't given."""
    return {
        "keys": [f"{_KEY}{one}" for one in when.key_ids],
        "teams": list(when.team_ids),
        "projects": list(when.project_ids),
        "tags": list(when.tags),
        "headers": [{"name": name, "value": value} for name, value in when.headers],
        "aliases": list(when.aliases),
        "tasks": [one.value for one in when.tasks],
        "priorities": [one.value for one in when.priorities],
        "prompt_tokens_min": when.prompt_tokens_min,
        "prompt_tokens_max": when.prompt_tokens_max,
        "schedule": None if when.schedule is None else _schedule_document(when.schedule),
    }


def target_document(target: TargetRecord) -> dict[str, Any]:
    """A target in the shape of the API, its pool as an id."""
    times = {name: getattr(target, name) for name in TARGET_BOUNDS}
    return {
        "id": target.id,
        "pool": target.pool_id,
        "weight": target.weight,
        "tier": target.tier,
        **times,
    }


def _schedule_document(schedule: ScheduleRecord) -> dict[str, Any]:
    return {
        "days": [one.value for one in schedule.days],
        "from": _clock(schedule.from_minute),
        "to": _clock(schedule.to_minute),
    }


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def minute_of(clock: str) -> int | None:
    """Minutes since midnight of "HH:MM", "24:00" included; None if it is none."""
    hours, _, minutes = clock.partition(":")
    is_plain = clock.isascii() and hours.isdigit() and minutes.isdigit() and len(clock) == 5
    if not is_plain or int(minutes) > 59 or len(hours) != 2:
        return None
    minute = 60 * int(hours) + int(minutes)
    return minute if minute <= MINUTES_A_DAY else None


def condition_words(
    when: Mapping[str, Any], names: Mapping[str, str], time_zone: str = ""
) -> Sequence[str]:
    """Each condition of a `when` document in words; all must hold, none is every request.

    `names` are those of keys, teams and projects by id; who is gone goes by the id.
    """
    return [
        *_named(when, names),
        *_listed(when),
        *(f"header {one['name']} is {one['value']}" for one in when.get("headers") or ()),
        *_length(when.get("prompt_tokens_min"), when.get("prompt_tokens_max")),
        *_times(when.get("schedule"), time_zone),
    ]


def _named(when: Mapping[str, Any], names: Mapping[str, str]) -> Iterable[str]:
    for kind in REFERENCES:
        ids = when.get(kind) or ()
        if ids:
            yield f"{kind.removesuffix('s')} is {either([names.get(one, one) for one in ids])}"


_LISTS = (
    ("tags", "tagged"),
    ("aliases", "asked for as"),
    ("tasks", "task is"),
    ("priorities", "class is"),
)


def _listed(when: Mapping[str, Any]) -> Iterable[str]:
    for field, words in _LISTS:
        if when.get(field):
            yield f"{words} {either(when[field])}"


def _length(least: int | None, most: int | None) -> Iterable[str]:
    if least is not None and most is not None:
        yield f"prompt of {least:,} to {most:,} tokens"
    elif least is not None:
        yield f"prompt of {least:,} tokens or more"
    elif most is not None:
        yield f"prompt of {most:,} tokens at most"


def _times(schedule: Mapping[str, Any] | None, time_zone: str) -> Iterable[str]:
    if schedule is None:
        return
    days = [day for day in _WEEKDAYS if day in (schedule.get("days") or ())]
    on = _days(days) or "every day"
    begin, end = schedule.get("from", "00:00"), schedule.get("to", "24:00")
    zone = f" {time_zone}" if time_zone else ""
    is_whole = (begin, end) == ("00:00", "24:00")
    yield f"{on}{zone}" if is_whole else f"{on}, {begin} to {end}{zone}"


def _days(days: Sequence[str]) -> str:
    """Days in words; those in a row from first to last."""
    if len(days) > 2 and len(days) == _WEEKDAYS.index(days[-1]) - _WEEKDAYS.index(days[0]) + 1:
        return f"{days[0].capitalize()} to {days[-1].capitalize()}"
    return either([day.capitalize() for day in days])


def either(values: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *first, last = values or [""]
    return f"{', '.join(first)} or {last}" if first else last

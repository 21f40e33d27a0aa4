"""What rules look at: of routes which targets serve, of cache policies what passes them by."""

from dataclasses import dataclass

from inference.contract.kinds import PriorityClass, TaskClass, Weekday


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """Times of the week in the organisation's zone, minutes since midnight, the end excluded.

    An end at or before the start is on the next day. No `days` are all days; the day is that of the
    start.
    """

    days: tuple[Weekday, ...] = ()
    from_minute: int = 0
    to_minute: int = 1_440


@dataclass(frozen=True, slots=True)
class MatchRecord:
    """What a request must be for a rule to apply: all that is given, of each any one of its values.

    Headers are (lower-case name, value) and all of them must be there. `aliases` are names the
    caller wrote in `model`. Token bounds are of the estimated prompt, both ends included. Tags are
    the key's and those the caller sent.
    """

    key_ids: tuple[str, ...] = ()
    team_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    aliases: tuple[str, ...] = ()
    tasks: tuple[TaskClass, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    prompt_tokens_min: int | None = None
    prompt_tokens_max: int | None = None
    schedule: ScheduleRecord | None = None

"""Why a rule of a route does not apply to a request: what `rules.fits` says yes or no to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.snapshot import MatchRecord, RouteRecord, RuleRecord
from inference.decisions.rules import Circumstances, fits, is_within


class RuleState(StrEnum):
    """What became of a rule: `unread` are those after the one that matched, or all."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    DISABLED = "disabled"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One condition that isn't met: what the rule wants, any one of it, and what there was."""

    field: str
    wanted: tuple[str, ...]
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What became of one rule, and why if it was read and did not apply."""

    rule: RuleRecord
    state: RuleState
    mismatches: tuple[Mismatch, ...] = ()


def rule_verdicts(route: RouteRecord, case: Circumstances) -> tuple[RuleVerdict, ...]:
    """What became of each rule of a route, in its order; none is read for a target asked for."""
    verdicts: list[RuleVerdict] = []
    is_decided = case.facts.target_id is not None
    for rule in route.rules:
        if is_decided:
            verdicts.append(RuleVerdict(rule, RuleState.UNREAD))
        elif not rule.is_enabled:
            verdicts.append(RuleVerdict(rule, RuleState.DISABLED))
        elif fits(rule.when, case):
            is_decided = True
            verdicts.append(RuleVerdict(rule, RuleState.MATCHED))
        else:
            found = tuple(mismatches(rule.when, case))
            verdicts.append(RuleVerdict(rule, RuleState.MISMATCHED, found))
    return tuple(verdicts)


def mismatches(when: MatchRecord, case: Circumstances) -> Iterator[Mismatch]:
    """Every condition that the request does not meet; none exactly if the rule applies."""
    identity, standing, facts = case.identity, case.standing, case.facts
    yield from _other("key", identity.id, when.key_ids)
    yield from _other("team", identity.team_id, when.team_ids)
    yield from _other("project", identity.project_id, when.project_ids)
    yield from _other("model", facts.model, when.aliases)
    yield from _other("task", standing.task, when.tasks)
    yield from _other("priority", standing.priority, when.priorities)
    if when.tags and not any(tag in when.tags for tag in standing.tags):
        yield Mismatch("tags", when.tags, standing.tags)
    for name, value in when.headers:
        if (name, value) not in facts.headers:
            sent = tuple(text for one, text in facts.headers if one == name)
            yield Mismatch(f"header {name}", (value,), sent)
    tokens = facts.prompt_tokens
    if when.prompt_tokens_min is not None and tokens < when.prompt_tokens_min:
        yield Mismatch("prompt_tokens", (f"at least {when.prompt_tokens_min}",), (str(tokens),))
    if when.prompt_tokens_max is not None and tokens > when.prompt_tokens_max:
        yield Mismatch("prompt_tokens", (f"at most {when.prompt_tokens_max}",), (str(tokens),))
    schedule = when.schedule
    if schedule is not None and not is_within(schedule, case.at, case.time_zone):
        days = ", ".join(schedule.days) or "every day"
        hours = f"{_clock(schedule.from_minute)} to {_clock(schedule.to_minute)}"
        yield Mismatch("schedule", (f"{days}, {hours} {case.time_zone}",), ())


def _other(field: str, value: str, wanted: Sequence[str]) -> Iterator[Mismatch]:
    if wanted and value not in wanted:
        yield Mismatch(field, tuple(wanted), (value,))


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"

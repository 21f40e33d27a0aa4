"""What is known of a request before anything is decided: data that can be stored and rebuilt."""

from collections.abc import Mapping

import msgspec

from inference.contract.kinds import Endpoint, PriorityClass, TaskClass
from inference.contract.snapshot import KeyRecord, RouteRecord
from inference.contract.values import frozen, terse, told

_URGENCY: Mapping[PriorityClass, int] = {one: place for place, one in enumerate(PriorityClass)}


@terse
class RequestFacts:
    """What a plan needs to know of a request: of its body first, then of what else its caller said.

    `answers` is how many were asked for in all: `n` for each prompt, 0 where none is generated;
    `output_tokens_requested` is of each. `prompt_tokens` estimates, and `prompt_tokens_max` bounds,
    all `prompts` together.

    `tags`, `priority` and `task` are what the caller sent, without the key's. A `session` is any
    text that requests which belong together share. `headers` are those that a rule of the route
    looks at, by lower-case name, one that was sent twice being there twice. `target_id` is the one
    target that the caller, who may, wants to ask. What can't be said in another endpoint's words
    is not `is_bridgeable`. `prompt_version_id` is of the prompt that it asked for by name.
    """

    model: str
    prompt_tokens_max: int
    output_tokens_requested: int | None = None
    answers: int = 1
    endpoint: Endpoint = Endpoint.CHAT
    prompt_tokens: int = 0
    prompts: int = 1
    end_user: str | None = None
    tags: tuple[str, ...] = ()
    priority: PriorityClass | None = None
    task: TaskClass | None = None
    session: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    target_id: str | None = None
    is_bridgeable: bool = True
    prompt_version_id: str | None = None


@frozen
class Standing:
    """What a request counts as: by what its caller said, its key, and the route it takes."""

    tags: tuple[str, ...]
    priority: PriorityClass
    task: TaskClass


def standing_of(facts: RequestFacts, identity: KeyRecord, route: RouteRecord | None) -> Standing:
    """Put the caller's wishes and the key's settings together.

    The key's tags come first. Nobody is more urgent than the key. The task is the caller's, else
    the key's, else the route's.
    """
    usual = standing_of_nothing(identity, route)
    return Standing(
        tags=_together(identity.tags, facts.tags) if facts.tags else identity.tags,
        priority=_least_urgent(identity.priority, facts.priority),
        task=facts.task or usual.task,
    )


def standing_of_nothing(identity: KeyRecord, route: RouteRecord | None) -> Standing:
    """What a request counts as whose caller says nothing of it."""
    task = identity.default_task
    if task is None:
        task = TaskClass.DEFAULT if route is None else route.default_task
    return Standing(tags=identity.tags, priority=identity.priority, task=task)


def facts_record(facts: RequestFacts) -> dict[str, object]:
    """The facts as plain JSON; what has its default is left out."""
    return told(facts)


def facts_from_record(record: Mapping[str, object]) -> RequestFacts:
    """The facts that `facts_record` told, equal to those it was given.

    Raises msgspec.ValidationError if it told no such thing.
    """
    return msgspec.convert(record, RequestFacts)


def _together(own: tuple[str, ...], sent: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*own, *sent)))


def _least_urgent(own: PriorityClass, asked: PriorityClass | None) -> PriorityClass:
    return own if asked is None or _URGENCY[asked] < _URGENCY[own] else asked

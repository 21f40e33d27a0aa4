"""What a request's body and headers say of it that decides where it goes."""

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

from inference.contract.kinds import PriorityClass, Scope, TaskClass
from inference.contract.params import MAX_TAGS, TAG_PATTERN
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import KeyRecord
from inference.contract.values import changed
from inference.decisions.facts import RequestFacts
from inference.errors import InsufficientScope, InvalidRequest
from inference.gateway.headers import (
    ANY_SESSION,
    PRIORITY,
    SESSION,
    TAGS,
    TARGET,
    TASK,
    CallerHeaders,
)
from inference.gateway.schemas import MAX_CHARS, InferenceRequest, kept_text

_TAG = re.compile(TAG_PATTERN)

K = TypeVar("K", bound=StrEnum)

NOTHING_KNOWN = RequestFacts("", prompt_tokens_max=0)
"""The facts of a request that could not be read."""


def facts_for(
    request: InferenceRequest,
    headers: CallerHeaders,
    *,
    identity: KeyRecord,
    looked_at: Collection[str] = (),
) -> RequestFacts:
    """The facts of a request, its headers' included; raises InvalidRequest or InsufficientScope.

    Of the headers only those that are always read are, and those that are `looked_at` by a rule.
    """
    wishes = headers.wishes
    if not (wishes or looked_at):
        return request.facts
    return changed(
        request.facts,
        tags=_tags(wishes[TAGS]) if TAGS in wishes else (),
        priority=_one_of(PriorityClass, PRIORITY, wishes[PRIORITY]) if PRIORITY in wishes else None,
        task=_one_of(TaskClass, TASK, wishes[TASK]) if TASK in wishes else None,
        session=_session(wishes.get(SESSION) or wishes.get(ANY_SESSION)),
        headers=tuple(_those_of(headers.raw, looked_at)) if looked_at else (),
        target_id=_target(wishes[TARGET], identity) if TARGET in wishes else None,
    )


def _tags(value: bytes) -> tuple[str, ...]:
    """Tags separated by commas, each once."""
    texts = [text.strip() for text in value.decode("latin-1").split(",")]
    tags = tuple(dict.fromkeys(text for text in texts if text))
    if len(tags) > MAX_TAGS:
        message = f"`{TAGS.decode()}` holds more than {MAX_TAGS} tags."
        raise InvalidRequest(message, param=TAGS.decode())
    for tag in tags:
        if not _TAG.fullmatch(tag):
            message = f"A tag in `{TAGS.decode()}` must match {TAG_PATTERN}."
            raise InvalidRequest(message, param=TAGS.decode())
    return tags


def _one_of(kind: type[K], header: bytes, value: bytes) -> K:
    """The member of a vocabulary that a header names, in any case."""
    try:
        return kind(value.decode("latin-1").strip().lower())
    except ValueError as error:
        words = ", ".join(kind)
        message = f"`{header.decode()}` must be one of: {words}."
        raise InvalidRequest(message, param=header.decode()) from error


def _target(value: bytes, identity: KeyRecord) -> str:
    """The target that a caller picks itself, past rules and weights, which takes a scope."""
    if Scope.DEBUG not in identity.scopes:
        raise InsufficientScope("This API key may not pick a target.")
    return value.decode("latin-1").strip()


def _session(value: bytes | None) -> str | None:
    return None if value is None else kept_text(value.decode("latin-1").strip())


def _those_of(
    raw: Sequence[tuple[bytes, bytes]], names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The headers of these names that could match: a longer value than a rule can have does not."""
    wanted = {name.encode(): name for name in names}
    for header, value in raw:
        name = wanted.get(header)
        if name is not None and len(value) <= MAX_CHARS:
            yield name, without_secrets(value.decode("utf-8", "replace"))

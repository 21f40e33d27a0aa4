"""What a request's body and headers say of it that decides where it goes."""

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

from inference.contract.kinds import Endpoint, PriorityClass, Scope, TaskClass
from inference.contract.params import MAX_TAGS, TAG_PATTERN
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import ConfigSnapshot, KeyRecord
from inference.decisions.facts import RequestFacts
from inference.decisions.plan import find_route
from inference.decisions.rules import headers_of
from inference.errors import InsufficientScope, InvalidRequest
from inference.gateway.dispatch import BYTES_PER_TOKEN
from inference.gateway.headers import (
    ANY_SESSION,
    PRIORITY,
    SESSION,
    TAGS,
    TARGET,
    TASK,
    CallerHeaders,
)
from inference.gateway.members import Members, value_of
from inference.gateway.schemas import InferenceRequest

MAX_CHARS = 255
"""What is kept of an end user, of a session, and of a header that a rule looks at."""

_TAG = re.compile(TAG_PATTERN)
_END_USER = ("user", "safety_identifier")

K = TypeVar("K", bound=StrEnum)

NOTHING_KNOWN = RequestFacts("", prompt_tokens_max=0)
"""The facts of a request that could not be read."""


def facts_for(
    request: InferenceRequest,
    headers: CallerHeaders,
    *,
    snapshot: ConfigSnapshot,
    identity: KeyRecord,
    media_bytes: int,
) -> RequestFacts:
    """The facts of a request, its headers' included; raises InvalidRequest or InsufficientScope.

    `media_bytes` of its prompt are no text. Of the headers only those that are always read are, and
    those that a rule of the route looks at.
    """
    body, wishes = request.facts, headers.wishes
    route = find_route(snapshot, identity, body.model)
    looked_at = headers_of(route) if route is not None and route.rules else ()
    return RequestFacts(
        model=body.model,
        prompt_tokens_max=body.prompt_tokens_max,
        output_tokens_requested=body.output_tokens_requested,
        answers=body.answers,
        endpoint=body.endpoint,
        prompt_tokens=max(body.prompt_tokens_max - media_bytes, 0) // BYTES_PER_TOKEN,
        prompts=body.prompts,
        end_user=_end_user(request),
        tags=_tags(wishes[TAGS]) if TAGS in wishes else (),
        priority=_one_of(PriorityClass, PRIORITY, wishes[PRIORITY]) if PRIORITY in wishes else None,
        task=_one_of(TaskClass, TASK, wishes[TASK]) if TASK in wishes else None,
        session=_session(wishes.get(SESSION) or wishes.get(ANY_SESSION)) if wishes else None,
        headers=tuple(_those_of(headers.raw, looked_at)) if looked_at else (),
        target_id=_target(wishes[TARGET], identity) if TARGET in wishes else None,
    )


def _end_user(request: InferenceRequest) -> str | None:
    """Whom the caller names as its own user, if it does; what is no text names nobody."""
    members: Members = request.members
    if request.facts.endpoint is Endpoint.MESSAGES:
        metadata = value_of(members, "metadata")
        return _kept(metadata.get("user_id")) if isinstance(metadata, dict) else None
    for name in _END_USER:
        if name in members and (user := _kept(value_of(members, name))) is not None:
            return user
    return None


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
    return None if value is None else _kept(value.decode("latin-1").strip())


def _those_of(
    raw: Sequence[tuple[bytes, bytes]], names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The headers of these names that could match: a longer value than a rule can have does not."""
    wanted = {name.encode(): name for name in names}
    for header, value in raw:
        name = wanted.get(header)
        if name is not None and len(value) <= MAX_CHARS:
            yield name, without_secrets(value.decode("utf-8", "replace"))


def _kept(text: object) -> str | None:
    """A text that any log and any database can hold; a key in its place is blanked out."""
    if not isinstance(text, str) or not text:
        return None
    text = without_secrets(text[:MAX_CHARS])[:MAX_CHARS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)

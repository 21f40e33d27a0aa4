"""Which answers may be kept, under which key, for how long, and whether one may still be served.

Keys are HMACs: nobody who sees one can tell what was asked, nor whether another tenant asked it.
"""

import hmac
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from inference.contract.kinds import CacheScope, Endpoint, PurgeKind, TaskClass
from inference.contract.params import CACHE_TTL_S
from inference.contract.snapshot import CachePolicyRecord, KeyRecord, PoolRecord
from inference.contract.values import frozen
from inference.decisions.endpoints import GENERATING, READING
from inference.decisions.plan import PlannedTarget

CACHEABLE = GENERATING | READING
"""Endpoints whose answers are kept; the others need no model."""

MIN_QUESTION_CHARS = 12
"""Below this a question means what is said around it."""
MAX_QUESTION_CHARS = 8_000
MAX_QUESTION_MESSAGES = 3

_FORM = 1
"""A change of what keys are made of counts this up, so that no old entry is taken for a new one."""

_UNSAID = frozenset(
    (
        *("model", "stream", "stream_options", "store", "background"),
        *("user", "safety_identifier", "metadata", "prompt_cache_key", "prompt_cache_retention"),
        *("priority", "request_id"),
    )
)
"""Members of a body that change no answer: how it is sent, for whom, and what is noted of it."""

_ANSWER_CHANGING = (
    *("dtype", "kv_cache_dtype", "quantization", "max_model_len", "seed", "runner"),
    *("enable_auto_tool_choice", "tool_call_parser", "reasoning_parser", "trust_remote_code"),
)
"""Engine arguments with which the same model answers otherwise."""

_LARGEST_EXACT = 2**53

Said = Mapping[str, object]
"""The members of a body that an answer depends on."""


class Obstacle(StrEnum):
    """Why a request is neither answered from a cache nor its answer kept."""

    ENDPOINT = "endpoint"
    TASK = "task"
    SAMPLED = "sampled"
    RULE = "rule"


@frozen
class CacheWishes:
    """What a caller says of caches: what may be served, what kept, and what it belongs to.

    `max_age_s` is the greatest age it takes. `context_version` is that of what the answer was made
    from, `namespace` and `tags` are what purges name.
    """

    skips_reading: bool = False
    keeps_nothing: bool = False
    only_cached: bool = False
    max_age_s: int | None = None
    context_version: str = ""
    namespace: str = ""
    tags: tuple[str, ...] = ()


NO_WISHES = CacheWishes()


@frozen
class Place:
    """What a key has beside the body: whose it is, of which route, answered by what."""

    endpoint: Endpoint
    tenant: tuple[str, ...]
    shelf: str
    requested: str
    identity: tuple[object, ...]
    context_version: str = ""
    namespace: str = ""


@frozen
class Question:
    """The last thing a user said, and all the rest, which must be the same to the letter."""

    text: str
    rest: Said


def tenant_of(policy: CachePolicyRecord, identity: KeyRecord) -> tuple[str, ...]:
    """Whose requests are answered from one another's: the organisation is in it always."""
    organisation_id = identity.organisation_id
    match policy.scope:
        case CacheScope.KEY:
            return (organisation_id, "key", identity.id)
        case CacheScope.PROJECT:
            return (organisation_id, "project", identity.project_id)
        case CacheScope.TEAM:
            return (organisation_id, "team", identity.team_id)
    return (organisation_id,)


def shelf_of(policy: CachePolicyRecord, route_id: str) -> str:
    """Which routes share: each has its own, but all of one policy that is shared have one."""
    return policy.id if policy.scope is CacheScope.SHARED else route_id


def identity_of(planned: PlannedTarget) -> tuple[object, ...]:
    """What answers at a target: two that are alike in this give the same answers."""
    return (*_pool_identity(planned.pool), planned.bridge)


def _pool_identity(pool: PoolRecord) -> tuple[object, ...]:
    arguments = pool.engine_arguments
    return (
        pool.model_id,
        pool.served_model_name,
        pool.model_source,
        pool.backend,
        {name: arguments[name] for name in _ANSWER_CHANGING if name in arguments},
    )


def read_said(members: Mapping[str, msgspec.Raw], replaced: Mapping[str, bytes]) -> Said:
    """What a body says that its answer depends on. Null is as if it weren't there.

    Raises msgspec.DecodeError or RecursionError.
    """
    said: dict[str, object] = {}
    for name, raw in members.items():
        if name not in _UNSAID and name not in replaced:
            said[name] = _decode(raw)
    for name, value in replaced.items():
        if name not in _UNSAID:
            said[name] = _decode(value)
    return {name: value for name, value in said.items() if value is not None}


def key_of(secret: bytes, place: Place, said: Said) -> bytes:
    """The key of a request: equal for bodies that mean the same, whoever wrote them how.

    Members may come in any order, and numbers in any form (1, 1.0, 1e0); texts count to the byte.
    """
    return hmac.digest(secret, _encode((_FORM, place, said)), "sha256")


def input_key_of(secret: bytes, place: Place, said: Said, one: object) -> bytes:
    """The key of one input of a request for embeddings; `said` is without its input."""
    content = _encode((_FORM, "input", place, said, one))
    return hmac.digest(secret, content, "sha256")


def partition_of(secret: bytes, place: Place, question: Question) -> bytes:
    """Where a question is compared with others: all but the question itself is the same there."""
    content = _encode((_FORM, "question", place, question.rest))
    return hmac.digest(secret, content, "sha256")


def entry_id_of(secret: bytes, key: bytes) -> str:
    """What an entry is called where people read it; its key can't be told from it."""
    return "ce_" + hmac.digest(secret, b"entry-id " + key, "sha256")[:12].hex()


def ttl_of(policy: CachePolicyRecord, task: TaskClass) -> int:
    """For how many seconds an answer to such a request is kept; 0 is not at all."""
    stated = policy.ttl_s.get(task)
    return CACHE_TTL_S[task] if stated is None else stated


def obstacle_to(
    policy: CachePolicyRecord, endpoint: Endpoint, task: TaskClass, *, is_sampled: bool
) -> Obstacle | None:
    """Why the policy keeps nothing of such a request; rules are the caller's to look at."""
    if endpoint not in CACHEABLE:
        return Obstacle.ENDPOINT
    if ttl_of(policy, task) == 0:
        return Obstacle.TASK
    if is_sampled and not policy.stores_sampled:
        return Obstacle.SAMPLED
    return None


def is_sampled(endpoint: Endpoint, said: Said) -> bool:
    """Whether chance has a part in the answer. No temperature is the engine's, which isn't 0."""
    if endpoint not in GENERATING:
        return False
    temperature = said.get("temperature")
    if isinstance(temperature, bool) or temperature != 0:
        return True
    return any(said.get(name, 1) != 1 for name in ("n", "best_of"))


def question_of(endpoint: Endpoint, said: Said) -> Question | None:
    """What the semantic tier may compare, or None if only the same request will do.

    That is so of long conversations, of questions too short to stand alone or too long to compare,
    and of all that isn't text.
    """
    if endpoint is Endpoint.RESPONSES and isinstance(said.get("input"), str):
        return _question(str(said["input"]), {**said, "input": None})
    messages = said.get("messages")
    if endpoint not in (Endpoint.CHAT, Endpoint.MESSAGES) or not isinstance(messages, list):
        return None
    last = messages[-1] if 0 < len(messages) <= MAX_QUESTION_MESSAGES else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    text = _text_of(last.get("content"))
    if text is None:
        return None
    return _question(text, {**said, "messages": [*messages[:-1], {**last, "content": None}]})


def _question(text: str, rest: Said) -> Question | None:
    is_fit = MIN_QUESTION_CHARS <= len(text.strip()) <= MAX_QUESTION_CHARS
    return Question(text, rest) if is_fit else None


def _text_of(content: object) -> str | None:
    """The text of a message that is text and nothing else."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or len(content) != 1 or not isinstance(content[0], dict):
        return None
    text = content[0].get("text")
    is_plain = set(content[0]) == {"type", "text"} and content[0]["type"] in ("text", "input_text")
    return text if is_plain and isinstance(text, str) else None


def mark(
    purges: Mapping[tuple[PurgeKind, str], int],
    policy_id: str,
    namespace: str,
    tags: tuple[str, ...],
    entry_id: str,
) -> int:
    """The newest epoch of an organisation's purges that bear on an entry; 0 is none.

    An entry lives until this is more than it was when its request was asked: so what was asked
    before a purge, or by a gateway that hadn't heard of it, is never served after it. It may be
    less once old purges are forgotten.
    """
    if not purges:
        return 0
    named = [(PurgeKind.POLICY, policy_id), (PurgeKind.ENTRY, entry_id)]
    named += [(PurgeKind.TAG, tag) for tag in tags]
    if namespace:
        named.append((PurgeKind.NAMESPACE, namespace))
        named += [(PurgeKind.PREFIX, namespace[:end]) for end in range(1, len(namespace) + 1)]
    return max(purges.get(one, 0) for one in named)


def _number(text: str) -> float:
    """A number as any that equals it is written; exact as far as whole numbers are exact."""
    value = float(text)
    is_whole = value.is_integer() and abs(value) < _LARGEST_EXACT
    return int(value) if is_whole else value


_decode = msgspec.json.Decoder(float_hook=_number).decode
_encode = msgspec.json.Encoder(order="deterministic").encode

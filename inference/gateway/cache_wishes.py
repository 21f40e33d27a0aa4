"""What a caller's headers say of caches."""

import re

from inference.contract.params import MAX_TAGS, NAMESPACE_PATTERN, TAG_PATTERN
from inference.decisions.caching import NO_WISHES, CacheWishes
from inference.errors import InvalidRequest
from inference.gateway.headers import (
    CACHE_CONTROL,
    CACHE_NAMESPACE,
    CACHE_TAGS,
    CONTEXT_VERSION,
    CallerHeaders,
)

_NAMESPACE = re.compile(NAMESPACE_PATTERN)
_TAG = re.compile(TAG_PATTERN)
_MOST_AGE_DIGITS = 9


def cache_wishes(headers: CallerHeaders) -> CacheWishes:
    """A caller's wishes, or raise InvalidRequest. Of `Cache-Control` what isn't known is passed
    over, as that of proxies is.
    """
    sent = headers.caching
    if not sent:
        return NO_WISHES
    directives = _directives(sent.get(CACHE_CONTROL, b""))
    return CacheWishes(
        skips_reading="no-cache" in directives,
        keeps_nothing="no-store" in directives,
        only_cached="only-if-cached" in directives,
        max_age_s=_age(directives.get("max-age")),
        context_version=_name(CONTEXT_VERSION, sent.get(CONTEXT_VERSION)),
        namespace=_name(CACHE_NAMESPACE, sent.get(CACHE_NAMESPACE)),
        tags=_tags(sent.get(CACHE_TAGS, b"")),
    )


def _directives(value: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in value.decode("latin-1").lower().split(","))
    return {name.strip(): text.strip().strip('"') for name, _, text in parts}


def _age(text: str | None) -> int | None:
    """The greatest age that is taken; what can't be read is none, as a cache must assume."""
    if text is None:
        return None
    is_age = text.isascii() and text.isdigit() and len(text) <= _MOST_AGE_DIGITS
    return int(text) if is_age else 0


def _name(header: bytes, value: bytes | None) -> str:
    if value is None:
        return ""
    text = value.decode("latin-1").strip()
    if not _NAMESPACE.fullmatch(text):
        message = f"`{header.decode()}` must match {NAMESPACE_PATTERN}."
        raise InvalidRequest(message, param=header.decode())
    return text


def _tags(value: bytes) -> tuple[str, ...]:
    texts = (text.strip() for text in value.decode("latin-1").split(","))
    tags = tuple(dict.fromkeys(text for text in texts if text))
    if len(tags) > MAX_TAGS or not all(_TAG.fullmatch(tag) for tag in tags):
        name = CACHE_TAGS.decode()
        message = f"`{name}` holds at most {MAX_TAGS} tags that match {TAG_PATTERN}."
        raise InvalidRequest(message, param=name)
    return tags

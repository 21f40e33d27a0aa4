"""What a worker's "no" means: its status and its error body as members of the error tree.

Nothing of a body is logged: it may quote the prompt. What is shown to the caller is bounded, and
never holds the credential the worker was sent.
"""

from collections.abc import Mapping

import msgspec

from inference.errors import (
    UpstreamBadAnswer,
    UpstreamCredentialRefused,
    UpstreamError,
    UpstreamFailed,
    UpstreamModelMissing,
    UpstreamPromptTooLong,
    UpstreamRefused,
    UpstreamSaturated,
    UpstreamTimedOut,
)

MAX_MESSAGE_CHARS = 2_000
_MAX_FIELD_CHARS = 100
_MAX_RETRY_AFTER_S = 3_600

# How servers say that a request doesn't fit the model's context; few have a code for it.
_TOO_LONG_CODE = "context_length_exceeded"
_TOO_LONG_WORDS = (
    "maximum context length",  # OpenAI, vLLM, SGLang
    "model's context length",  # vLLM's newer words, SGLang
    "longer than the maximum model length",  # vLLM
    "exceeds the max_model_len",  # vLLM, of responses
    "tokens) exceeds the maximum allowed length",  # SGLang
    "exceeds the available context size",  # llama.cpp
    "prompt is too long",  # Anthropic
    "exceed context limit",  # Anthropic
    "exceeds the maximum number of tokens allowed",  # Gemini
    "exceeds the context window",
)
_TOO_LONG_TYPE = "exceed_context_size_error"  # llama.cpp

# What an error in place of an answer is, where it has no status: by its code or its type.
_STATUS_BY_WORD: Mapping[object, int] = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    _TOO_LONG_CODE: 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 429,
}

_decode = msgspec.json.Decoder().decode


def failure_of_status(
    status: int, *, saturated: frozenset[int], retry_after: bytes
) -> UpstreamError | None:
    """The error that a status other than 2xx stands for; None is one only its body explains."""
    if status in saturated:
        return UpstreamSaturated(retry_after_s=_whole_seconds(retry_after), upstream_status=status)
    return _failure_of_status(status)


def failure_of_refusal(status: int, body: bytes, *, secret: bytes) -> UpstreamError:
    """The error that a 4xx with this body stands for: the caller's, if it can be read."""
    detail = _detail(_parsed(body), secret=secret)
    if detail is None:
        return UpstreamBadAnswer(upstream_status=status)
    return _refusal_of(status, detail)


def failure_of_error_member(raw: bytes, *, secret: bytes) -> UpstreamError:
    """The error that an `error` member in place of an answer stands for."""
    member = _parsed(raw)
    status = _status_in(member) if isinstance(member, Mapping) else 502
    by_status = _failure_of_status(status)
    if by_status is not None:
        return by_status
    if status == 429:
        return UpstreamSaturated(upstream_status=status)
    return _refusal_of(status, _detail({"error": member}, secret=secret) or {})


def _status_in(member: Mapping[str, object]) -> int:
    """The status an error names, or the one its words stand for; else the worker's fault."""
    code, kind = member.get("code"), member.get("type")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    words = (one for one in (code, kind) if isinstance(one, str) and one in _STATUS_BY_WORD)
    return _STATUS_BY_WORD.get(next(words, None), 502)


def _refusal_of(status: int, detail: Mapping[str, object]) -> UpstreamRefused:
    """The caller's fault, unless the request is only too long for this model."""
    message = str(detail.get("message") or "").lower()
    is_too_long = (
        detail.get("code") == _TOO_LONG_CODE
        or detail.get("type") == _TOO_LONG_TYPE
        or any(words in message for words in _TOO_LONG_WORDS)
    )
    return UpstreamPromptTooLong(status, detail) if is_too_long else UpstreamRefused(status, detail)


def _failure_of_status(status: int) -> UpstreamError | None:
    """What the status alone decides; None is a 4xx that is the caller's to mend."""
    match status:
        case 401 | 403 | 407:
            return UpstreamCredentialRefused(upstream_status=status)
        case 404:
            return UpstreamModelMissing(upstream_status=status)
        case 408:
            return UpstreamTimedOut(upstream_status=status)
        case _ if 500 <= status < 600:
            return UpstreamFailed(upstream_status=status)
        case _ if not 400 <= status < 500:
            return UpstreamBadAnswer(upstream_status=status)
    return None


def _parsed(body: bytes) -> object:
    try:
        parsed: object = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return parsed


def _detail(parsed: object, *, secret: bytes) -> dict[str, object] | None:
    """The members of OpenAI's envelope, from it or from one of the shapes engines use instead."""
    if not isinstance(parsed, Mapping):
        return None
    error = parsed.get("error", parsed)
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, Mapping):
        return None
    message = error.get("message") or error.get("detail")
    if message is not None and not isinstance(message, str):
        message = msgspec.json.encode(message).decode()
    found: dict[str, object] = {
        "message": _shown(message, MAX_MESSAGE_CHARS, secret=secret) or UpstreamRefused.message
    }
    for name in ("type", "param", "code"):
        value = error.get(name)
        if isinstance(value, str):
            found[name] = _shown(value, _MAX_FIELD_CHARS, secret=secret)
    return found


def _shown(text: str | None, most_chars: int, *, secret: bytes) -> str:
    if text is None:
        return ""
    if secret:
        text = text.replace(secret.decode(), "***")
    return text[:most_chars]


def _whole_seconds(value: bytes) -> int | None:
    if not value.isdigit() or len(value) > 6:
        return None
    return min(max(int(value), 1), _MAX_RETRY_AFTER_S)

"""The one table that turns exceptions into responses, in the envelope their path's callers know."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from inference.errors import (
    CallerError,
    GatewayError,
    InsufficientScope,
    MethodNotAllowed,
    RateLimitExceeded,
    SwitchedOff,
    UpstreamError,
    UpstreamRefused,
)
from inference.gateway.dialects import Dialect

Headers = tuple[tuple[bytes, bytes], ...]

# Nothing measures the queue yet, so this is how long the fleet takes to notice a worker's return:
# the directory's poll of 2 s and a start of the next request, rounded up.
RETRY_AFTER_S = 5

# Some clients wait for as long as they are told, inside the call, be it until tomorrow.
MAX_WAIT_S = 60

# The official clients heed it; else they try again whatever a 429 says, or does not say.
_NEVER_AGAIN: Headers = ((b"x-should-retry", b"false"),)

# OpenAI's `type`; the nearest class wins.
_TYPES: Mapping[type[GatewayError], str] = {
    GatewayError: "server_error",
    CallerError: "invalid_request_error",
    InsufficientScope: "permission_error",
    RateLimitExceeded: "rate_limit_error",
    SwitchedOff: "permission_error",
    UpstreamError: "upstream_error",
    UpstreamRefused: "invalid_request_error",
}

# Anthropic's, which follows from the status.
_TYPES_BY_STATUS: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Status, body and the headers that belong to this error alone."""

    status: int
    body: bytes
    headers: Headers = ()


def error_response(error: GatewayError, dialect: Dialect = Dialect.OPENAI) -> ErrorResponse:
    """What the caller is answered."""
    return ErrorResponse(error.http_status, error_body(error, dialect), _headers_of(error))


def error_body(error: GatewayError, dialect: Dialect = Dialect.OPENAI) -> bytes:
    """The envelope, on one line: `{"error":{"message","type","param","code"}}`.

    Anthropic's is `{"type":"error","error":{"type","message","details"}}`, with a vocabulary of its
    own for the inner `type`, and the code in the details: its clients read it as `error_code`.
    """
    member = _member(error)
    if dialect is not Dialect.ANTHROPIC:
        return _encode({"error": member})
    details = {"error_code": member["code"], "param": member["param"]}
    shown = {
        "type": _anthropic_type(error.http_status),
        "message": member["message"],
        "details": {name: value for name, value in details.items() if value is not None},
    }
    return _encode({"type": "error", "error": shown})


def error_frame(
    error: GatewayError, dialect: Dialect = Dialect.OPENAI, *, sequence_number: int = 0
) -> bytes:
    """The same as the last event of a stream that has begun.

    A response's has its members twice: as its own, which is how OpenAI describes it, and in
    `error`, which is where its clients look for what to raise.
    """
    if dialect is Dialect.OPENAI:
        return b"data: " + error_body(error) + b"\n\n"
    body = error_body(error, dialect)
    if dialect is Dialect.RESPONSES:
        member = _member(error)
        own = {name: member[name] for name in ("code", "message", "param")}
        numbered = {"type": "error", **own, "sequence_number": sequence_number, "error": member}
        body = _encode(numbered)
    return b"event: error\ndata: " + body + b"\n\n"


def _member(error: GatewayError) -> dict[str, object]:
    member: dict[str, object] = {
        "message": str(error),
        "type": _type_of(error),
        "param": error.param,
        "code": error.code.value,
    }
    return {**member, **error.detail} if isinstance(error, UpstreamRefused) else member


def _type_of(error: GatewayError) -> str:
    return next(_TYPES[kind] for kind in type(error).__mro__ if kind in _TYPES)


def _anthropic_type(status: int) -> str:
    return _TYPES_BY_STATUS.get(status, "invalid_request_error" if status < 500 else "api_error")


def _headers_of(error: GatewayError) -> Headers:
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", ", ".join(error.allowed).encode()),)
    default_s = RETRY_AFTER_S if error.http_status == 503 else None
    retry_after_s = error.retry_after_s or default_s
    if retry_after_s is None:
        return _NEVER_AGAIN if error.http_status == 429 else ()
    headers: Headers = ((b"retry-after", b"%d" % retry_after_s),)
    return headers if retry_after_s <= MAX_WAIT_S else headers + _NEVER_AGAIN

"""The one table that turns exceptions into responses, in OpenAI's envelope."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from inference.errors import (
    CallerError,
    GatewayError,
    InsufficientScope,
    MethodNotAllowed,
    UpstreamError,
    UpstreamRefused,
)

Headers = tuple[tuple[bytes, bytes], ...]

# Nothing measures the queue yet, so this is how long the fleet takes to notice a worker's return:
# the directory's poll of 2 s and a start of the next request, rounded up.
RETRY_AFTER_S = 5


# The envelope's `type`; the nearest class wins.
_TYPES: Mapping[type[GatewayError], str] = {
    GatewayError: "server_error",
    CallerError: "invalid_request_error",
    InsufficientScope: "permission_error",
    UpstreamError: "upstream_error",
    UpstreamRefused: "invalid_request_error",
}

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Status, body and the headers that belong to this error alone."""

    status: int
    body: bytes
    headers: Headers = ()


def error_response(error: GatewayError) -> ErrorResponse:
    """What the caller is answered."""
    return ErrorResponse(error.http_status, error_body(error), _headers_of(error))


def error_body(error: GatewayError) -> bytes:
    """OpenAI's envelope, on one line: `{"error":{"message","type","param","code"}}`."""
    member: dict[str, object] = {
        "message": str(error),
        "type": _type_of(error),
        "param": error.param,
        "code": error.code.value,
    }
    if isinstance(error, UpstreamRefused):
        member |= error.detail
    return _encode({"error": member})


def error_frame(error: GatewayError) -> bytes:
    """The same envelope as an event of a stream that has begun."""
    return b"data: " + error_body(error) + b"\n\n"


def _type_of(error: GatewayError) -> str:
    return next(_TYPES[kind] for kind in type(error).__mro__ if kind in _TYPES)


def _headers_of(error: GatewayError) -> Headers:
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", ", ".join(error.allowed).encode()),)
    default_s = RETRY_AFTER_S if error.http_status == 503 else None
    retry_after_s = error.retry_after_s or default_s
    return () if retry_after_s is None else ((b"retry-after", b"%d" % retry_after_s),)

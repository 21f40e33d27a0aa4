"""Headers in and out: what is read of a caller's, what a worker gets, what comes back.

Denied by default. Of the caller's headers only the trace context goes to a worker; its credentials
never do. Of a worker's headers none comes back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from inference.contract.sealing import without_secrets
from inference.fleet.worker import Address

Headers = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"

MAX_CLIENT_ID_CHARS = 128
_MAX_FORWARDED_BYTES = 1_024

_FORWARDED = frozenset((b"traceparent", b"tracestate"))
_READ = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"expect",
        b"x-headworks-debug",
        b"x-request-id",
    )
)


@dataclass(frozen=True, slots=True)
class CallerHeaders:
    """What the gateway reads of a request's headers. `forwarded` are whole lines, ready to send."""

    authorization: bytes = b""
    client_request_id: str | None = None
    wants_decision: bool = False
    content_length: int | None = None
    content_encoding: bytes = b""
    expects_continue: bool = False
    forwarded: bytes = b""


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> CallerHeaders:
    """Pick the headers that matter; names are lower case."""
    read: dict[bytes, bytes] = {}
    forwarded = b""
    for name, value in raw:
        if name in _READ:
            read[name] = value
        elif name in _FORWARDED and len(value) <= _MAX_FORWARDED_BYTES:
            forwarded += b"%b: %b\r\n" % (name, value)
    length = read.get(b"content-length", b"")
    return CallerHeaders(
        authorization=read.get(b"authorization", b""),
        client_request_id=_client_request_id(read.get(b"x-request-id", b"")),
        wants_decision=read.get(b"x-headworks-debug") == b"1",
        content_length=int(length) if length.isdigit() else None,
        content_encoding=read.get(b"content-encoding", b""),
        expects_continue=b"expect" in read,
        forwarded=forwarded,
    )


def upstream_request_id(event_id: str, attempt: int) -> str:
    """The id a worker knows an attempt by: the request's, `-2` and so on added from the second on.

    An engine that is asked twice under one id takes it for one request.
    """
    return event_id if attempt == 1 else f"{event_id}-{attempt}"


def upstream_headers(
    address: Address, *, request_id: str, is_stream: bool, forwarded: bytes
) -> bytes:
    """The header lines a worker is sent."""
    authorization = b""
    if address.authorization:
        authorization = b"authorization: %b\r\n" % address.authorization
    return (
        b"content-type: application/json\r\naccept: %b\r\naccept-encoding: identity\r\n"
        b"x-request-id: %b\r\n%b%b"
        % (EVENT_STREAM if is_stream else JSON, request_id.encode(), forwarded, authorization)
    )


def answer_headers(request_id: str, *, content_length: int) -> Headers:
    """Headers of every answer that is JSON: nobody but the caller may keep it."""
    return (
        (b"content-type", JSON),
        (b"content-length", b"%d" % content_length),
        (b"cache-control", b"private, no-store"),
        (b"vary", b"Authorization"),
        (b"x-request-id", request_id.encode()),
    )


def stream_headers(request_id: str) -> Headers:
    """Headers of a stream: no proxy on the way may collect it, nobody but the caller keep it."""
    return (
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache, private, no-store"),
        (b"vary", b"Authorization"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
    )


def _client_request_id(value: bytes) -> str | None:
    """The caller's own id, if it is one that any log and any database can hold.

    A key that was sent in its place is blanked out.
    """
    if not value or len(value) > MAX_CLIENT_ID_CHARS or not value.isascii():
        return None
    text = value.decode("ascii")
    return without_secrets(text)[:MAX_CLIENT_ID_CHARS] if text.isprintable() else None

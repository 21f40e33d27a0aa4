"""Headers in and out: what is read of a caller's, what a worker gets, what comes back.

Denied by default. Of the caller's headers only the trace context goes to a worker; its credentials
never do. Of a worker's headers none comes back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum

from inference.contract.sealing import without_secrets
from inference.contract.values import changed, frozen
from inference.fleet.worker import Address
from inference.gateway.dialects import Dialect

Headers = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"

MAX_CLIENT_ID_CHARS = 128
_MAX_FORWARDED_BYTES = 1_024

TAGS = b"x-headworks-tags"
TASK = b"x-headworks-task"
PRIORITY = b"x-headworks-priority"
SESSION = b"x-headworks-session"
ANY_SESSION = b"x-session-id"
TARGET = b"x-headworks-target"
CACHE_CONTROL = b"cache-control"
CONTEXT_VERSION = b"x-headworks-context-version"
CACHE_NAMESPACE = b"x-headworks-cache-namespace"
CACHE_TAGS = b"x-headworks-cache-tags"


class _Use(Enum):
    """What becomes of a header that isn't passed over."""

    READ = 1
    FORWARDED = 2
    WISH = 3
    CACHING = 4


_READ, _FORWARDED, _WISH, _CACHING = _Use
_USES: Mapping[bytes, _Use] = {
    b"authorization": _READ,
    b"content-encoding": _READ,
    b"content-length": _READ,
    b"expect": _READ,
    b"x-api-key": _READ,
    b"x-headworks-debug": _READ,
    b"x-request-id": _READ,
    b"traceparent": _FORWARDED,
    b"tracestate": _FORWARDED,
    **dict.fromkeys((TAGS, TASK, PRIORITY, SESSION, ANY_SESSION, TARGET), _WISH),
    **dict.fromkeys((CACHE_CONTROL, CONTEXT_VERSION, CACHE_NAMESPACE, CACHE_TAGS), _CACHING),
}

VARIES_BY: tuple[bytes, ...] = (
    *(b"authorization", b"x-api-key", b"x-headworks-debug"),
    *(one for one, use in _USES.items() if use in (_WISH, _CACHING) and one != CACHE_CONTROL),
)
"""The headers by which answers differ; a route's rules may look at further ones."""


@frozen
class CallerHeaders:
    """What the gateway reads of a request's headers. `forwarded` are whole lines, ready to send.

    `authorization` is what says who asks: the header of that name, or else an `x-api-key`, which is
    Anthropic's way, as if it had come in that header. `wishes` are those by which a caller has a
    say in where its request goes, `caching` those about caches; one that was sent twice is one
    list. `raw` is all of them, for rules that look at a header.
    """

    authorization: bytes = b""
    client_request_id: str | None = None
    wants_decision: bool = False
    content_length: int | None = None
    content_encoding: bytes = b""
    expects_continue: bool = False
    forwarded: bytes = b""
    wishes: Mapping[bytes, bytes] = field(default_factory=dict)
    caching: Mapping[bytes, bytes] = field(default_factory=dict)
    raw: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False)


def read_headers(raw: Sequence[tuple[bytes, bytes]]) -> CallerHeaders:
    """Pick the headers that matter; names are lower case."""
    read: dict[bytes, bytes] = {}
    wishes: dict[bytes, bytes] = {}
    caching: dict[bytes, bytes] = {}
    forwarded = b""
    for name, value in raw:
        use = _USES.get(name)
        if use is None:
            continue
        if use is _READ:
            read[name] = value
        elif use is _WISH or use is _CACHING:
            kept = wishes if use is _WISH else caching
            kept[name] = b"%b,%b" % (kept[name], value) if name in kept else value
        elif len(value) <= _MAX_FORWARDED_BYTES:
            forwarded += b"%b: %b\r\n" % (name, value)
    length = read.get(b"content-length", b"")
    return CallerHeaders(
        authorization=_authorization(read),
        client_request_id=_client_request_id(read.get(b"x-request-id", b"")),
        wants_decision=read.get(b"x-headworks-debug") == b"1",
        content_length=int(length) if length.isdigit() else None,
        content_encoding=read.get(b"content-encoding", b""),
        expects_continue=b"expect" in read,
        forwarded=forwarded,
        wishes=wishes,
        caching=caching,
        raw=raw,
    )


def of_length(headers: CallerHeaders, length: int) -> CallerHeaders:
    """The same headers of a request whose body has another length."""
    digits = b"%d" % length
    raw = [(name, digits if name == b"content-length" else one) for name, one in headers.raw]
    return changed(headers, content_length=length, raw=raw)


def upstream_request_id(event_id: str, attempt: int) -> str:
    """The id a worker knows an attempt by: the request's, `-2` and so on added from the second on.

    An engine that is asked twice under one id takes it for one request.
    """
    return event_id if attempt == 1 else f"{event_id}-{attempt}"


_USUAL = (
    b"content-type: application/json\r\naccept: %b\r\naccept-encoding: identity\r\nx-request-id: "
)
_FOR_JSON, _FOR_STREAM = _USUAL % JSON, _USUAL % EVENT_STREAM


def upstream_headers(
    address: Address, *, request_id: str, is_stream: bool, forwarded: bytes
) -> bytes:
    """The header lines a worker is sent."""
    authorization = b""
    if address.authorization:
        authorization = b"authorization: %b\r\n" % address.authorization
    usual = _FOR_STREAM if is_stream else _FOR_JSON
    return b"".join((usual, request_id.encode(), b"\r\n", forwarded, authorization))


def answer_headers(
    request_id: str, *, content_length: int, dialect: Dialect = Dialect.OPENAI
) -> Headers:
    """Headers of every answer that is JSON: nobody but the caller may keep it."""
    headers = (
        (b"content-type", JSON),
        (b"content-length", b"%d" % content_length),
        (b"cache-control", b"private, no-store"),
        (b"vary", b"Authorization"),
        (b"x-request-id", request_id.encode()),
    )
    return headers + _further_ids(request_id, dialect) if dialect is Dialect.ANTHROPIC else headers


def answer_lines(request_id: str, *, content_length: int, dialect: Dialect) -> bytes:
    """The same as lines, in a tenth of the time."""
    id_ = request_id.encode()
    if dialect is Dialect.ANTHROPIC:
        return _ANTHROPIC_LINES % (content_length, id_, id_)
    return _ANSWER_LINES % (content_length, id_)


def stream_headers(request_id: str, dialect: Dialect = Dialect.OPENAI) -> Headers:
    """Headers of a stream: no proxy on the way may collect it, nobody but the caller keep it."""
    return (
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-cache, private, no-store"),
        (b"vary", b"Authorization"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
        *_further_ids(request_id, dialect),
    )


def _further_ids(request_id: str, dialect: Dialect) -> Headers:
    """The id of a request where Anthropic's clients look for it."""
    return ((b"request-id", request_id.encode()),) if dialect is Dialect.ANTHROPIC else ()


def _lines(headers: Headers) -> bytes:
    """A form of these headers in which length and ids are left open."""
    left_open = {b"content-length": b"%d", b"x-request-id": b"%b", b"request-id": b"%b"}
    return b"\r\n".join(b"%b: %b" % (name, left_open.get(name, value)) for name, value in headers)


_ANSWER_LINES = _lines(answer_headers("", content_length=0))
_ANTHROPIC_LINES = _lines(answer_headers("", content_length=0, dialect=Dialect.ANTHROPIC))


def _authorization(read: Mapping[bytes, bytes]) -> bytes:
    given = read.get(b"authorization", b"")
    key = b"" if given else read.get(b"x-api-key", b"")
    return b"Bearer " + key if key else given


def _client_request_id(value: bytes) -> str | None:
    """The caller's own id, if it is one that any log and any database can hold.

    A key that was sent in its place is blanked out.
    """
    if not value or len(value) > MAX_CLIENT_ID_CHARS or not value.isascii():
        return None
    text = value.decode("ascii")
    return without_secrets(text)[:MAX_CLIENT_ID_CHARS] if text.isprintable() else None

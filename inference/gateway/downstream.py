"""The caller's side of an exchange, so that the pipeline knows nothing of ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeVar

from inference.errors import (
    ClientLeft,
    ClientStalled,
    InvalidRequest,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedEncoding,
)
from inference.gateway.dialects import Dialect
from inference.gateway.headers import CallerHeaders, Headers, answer_headers, read_headers
from inference.gateway.protocol import EXTENSION, GatewayProtocol

# Between two reads of a body; anything slower is no client worth holding memory for.
BODY_IDLE_S = 30.0

# On the whole a body comes at this pace at least, or a byte now and then would hold us for hours.
LEAST_PACE_BYTES_S = 1024

# Beyond this a client that doesn't read its answer is given up, whatever the route allows a worker.
STALL_S = 60.0

T = TypeVar("T")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Downstream(Protocol):
    """Reads one request and writes its answer, once. Writing to a client that left does nothing."""

    @property
    def headers(self) -> CallerHeaders: ...

    @property
    def task(self) -> "asyncio.Task[None] | None":
        """The task that answers it."""

    @property
    def has_started(self) -> bool:
        """Whether the client was sent anything."""

    @property
    def has_unsent(self) -> bool:
        """Whether anything that was written waits for the client to read."""

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        """Have `on_lost` called when the client is gone, at once if it is; None ends it."""

    async def read_body(self, limit_bytes: int) -> bytes:
        """Return the body, or raise InvalidRequest, RequestTooLarge, ClientLeft and the like."""

    async def start(self, status: int, headers: Headers) -> None:
        """Begin the answer."""

    async def write(self, data: bytes) -> None:
        """Send a part of the body; raises ClientStalled if the client doesn't read."""

    def write_now(self, data: bytes) -> bool:
        """Send a part of the body without waiting.

        False, with nothing sent, while the client has yet to read what it was sent before.
        """

    async def end(self, data: bytes = b"") -> None:
        """Send the last part of the body; raises ClientStalled like `write`."""

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer; raises ClientStalled like `write`."""

    async def answer(
        self, request_id: str, dialect: Dialect, further: Headers, body: bytes
    ) -> None:
        """Respond with 200, the headers of an answer and these further ones, and the body."""

    async def abort(self, data: bytes = b"") -> None:
        """Send this and break the connection off, so that nobody takes it for a whole answer."""


class AsgiDownstream:
    """A Downstream over ASGI, on a server that runs `GatewayProtocol`.

    `is_last` has the connection closed after the answer.
    """

    __slots__ = (
        "_connection",
        "_is_body_begun",
        "_is_last",
        "_receive",
        "_send",
        "has_started",
        "headers",
        "task",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, is_last: bool = False
    ) -> None:
        self._connection: GatewayProtocol = scope["extensions"][EXTENSION]
        self._receive = receive
        self._send = send
        self._is_body_begun = False
        self._is_last = is_last
        self.has_started = False
        self.headers = read_headers(scope["headers"])
        self.task = asyncio.current_task()

    @property
    def has_unsent(self) -> bool:
        return self._connection.has_unsent

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        if on_lost is not None and self._connection.is_lost:
            on_lost()
        else:
            self._connection.on_lost = on_lost

    async def read_body(self, limit_bytes: int) -> bytes:
        check_head(self.headers, limit_bytes)
        self._is_body_begun = True
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        parts: list[bytes] = []
        size, is_whole = 0, False
        while not is_whole and size <= limit_bytes:
            message = await self._next_part(size, waited_s=loop.time() - began_s)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            is_whole = not message.get("more_body")
        check_length(size, limit_bytes)
        self._connection.read_on()
        return b"".join(parts)

    async def start(self, status: int, headers: Headers) -> None:
        is_body_unsure = self.headers.expects_continue and not self._is_body_begun
        if self._is_last or is_body_unsure:
            # a client that expected to be asked may send its body or not, and nothing that comes
            # after it could be told apart
            headers = (*headers, (b"connection", b"close"))
        self.has_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        if data:
            await self._send_in_time(data, more_body=True)

    def write_now(self, data: bytes) -> bool:
        if self._connection.is_write_paused:
            return False
        # the server waits for nothing but a full buffer, so its coroutine is over at the first step
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        try:
            next(sending.__await__())
        except StopIteration:
            return True
        raise RuntimeError("the server waits though its buffer has room")

    async def end(self, data: bytes = b"") -> None:
        await self._send_in_time(data, more_body=False)

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        await self.start(status, headers)
        await self.end(body)

    async def answer(
        self, request_id: str, dialect: Dialect, further: Headers, body: bytes
    ) -> None:
        headers = answer_headers(request_id, content_length=len(body), dialect=dialect)
        await self.respond(200, headers + further, body)

    async def abort(self, data: bytes = b"") -> None:
        if data and not self._connection.is_write_paused:
            await self.write(data)
        self._connection.cut_off()
        await self._connection.gone()
        # the server tells of a loss only the request that was read last, and would take an answer
        # without an end for a fault of ours
        await self.end()

    async def _send_in_time(self, data: bytes, *, more_body: bool) -> None:
        """Send; what was written before may take so long to be read, but no longer."""
        message = {"type": "http.response.body", "body": data, "more_body": more_body}
        if self._connection.is_write_paused:
            await sent(self._send(message))
        else:
            await self._send(message)

    async def _next_part(self, size: int, *, waited_s: float) -> MutableMapping[str, Any]:
        if self._connection.has_whole_body:
            message = await self._receive()
        else:
            message = await received(self._receive(), size, waited_s=waited_s)
        if message["type"] == "http.disconnect":
            raise ClientLeft
        if self._connection.has_broken_body:
            raise InvalidRequest("The request body is not valid HTTP.")
        return message


def check_head(headers: CallerHeaders, limit_bytes: int) -> None:
    """Refuse a body by what is said of it, before any of it is read."""
    if headers.content_encoding not in (b"", b"identity"):
        raise UnsupportedEncoding
    check_length(headers.content_length or 0, limit_bytes)


def check_length(size: int, limit_bytes: int) -> None:
    """Refuse a body that is too long."""
    if size > limit_bytes:
        raise RequestTooLarge(f"The request body is larger than the limit of {limit_bytes} bytes.")


async def received(part: Awaitable[T], size: int, *, waited_s: float) -> T:
    """Wait for the next part of a body, of which so much came in so long, or raise RequestTimeout.

    Neither may a part take long, nor the whole longer than at the least pace.
    """
    patience_s = min(BODY_IDLE_S, BODY_IDLE_S + size / LEAST_PACE_BYTES_S - waited_s)
    try:
        async with asyncio.timeout(patience_s):
            return await part
    except TimeoutError as error:
        raise RequestTimeout from error


async def sent(sending: Awaitable[None]) -> None:
    """Wait for a client to read what it was sent before, or raise ClientStalled."""
    try:
        async with asyncio.timeout(STALL_S):
            await sending
    except TimeoutError as error:
        raise ClientStalled from error

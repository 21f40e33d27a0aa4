"""The hot routes without ASGI: from the parser's callbacks straight into the one pipeline.

What is no plain POST to one of them goes by ASGI, on the same connection and in its turn. To the
protocol a hot request is a cycle like uvicorn's, so pipelining, refusals and a stop are the same
code; both ways have to answer alike, byte by byte, and a test drives both to see that they do.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import structlog
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from inference.contract.shapes import shaped
from inference.errors import ClientLeft, GatewayError, InternalError, InvalidRequest
from inference.gateway.app import GatewayApp
from inference.gateway.dialects import Dialect
from inference.gateway.downstream import check_head, check_length, received, sent
from inference.gateway.error_responses import error_body
from inference.gateway.headers import (
    CallerHeaders,
    Headers,
    answer_headers,
    answer_lines,
    of_length,
    read_headers,
)
from inference.gateway.protocol import GatewayProtocol
from inference.gateway.routes import HOT_ROUTES, Handler
from inference.heads import HeadMemory

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE = b": ".join
_OK = STATUS_LINE[200]
_HEAD_END = b"\r\n\r\n"

log = structlog.get_logger(__name__)


@shaped
class HotDownstream:
    """A Downstream on a connection itself, and in uvicorn's eyes the cycle of its request.

    `is_last` has the connection closed after the answer; it is set before the request's turn.
    """

    # made of what differs from these, which takes a third of the time that setting all does
    waits_for_continue = False
    response_started = False
    response_complete = False
    disconnected = False
    is_body_whole = False
    is_last = False
    task: "asyncio.Task[None]"
    body: bytes | None = None
    """One that came whole, for the reader to come."""
    _is_body_begun = False
    _is_chunked = False
    _size = 0
    _waiter: "asyncio.Future[None] | None" = None

    message_event = asyncio.Event()
    """uvicorn sets it for the reader of a body; ours waits for something cheaper."""

    def __init__(
        self,
        connection: "HotProtocol",
        handler: Handler,
        headers: CallerHeaders,
        *,
        keeps_alive: bool,
    ) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._flow = connection.flow
        self._parts: list[bytes] = []
        self.handler = handler
        self.headers = headers
        self.keep_alive = keeps_alive

    @property
    def has_started(self) -> bool:
        return self.response_started

    @property
    def has_unsent(self) -> bool:
        return self._connection.has_unsent

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        if on_lost is not None and self._connection.is_lost:
            on_lost()
        else:
            self._connection.on_lost = on_lost

    def take(self, part: bytes) -> None:
        """Take a part of the body from the parser."""
        self._parts.append(part)
        self._size += len(part)
        if self._waiter is None and self._size > HIGH_WATER_LIMIT:
            self._flow.pause_reading()
        self.wake()

    def end_body(self) -> None:
        """Take note that the body is whole."""
        self.is_body_whole = True
        self.wake()

    def wake(self) -> None:
        """Have the reader of the body look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read_body(self, limit_bytes: int) -> bytes:
        if self.body is not None and len(self.body) <= limit_bytes:
            body, self.body = self.body, None
            self._is_body_begun = True
            if not self.headers.content_encoding and not self._connection.is_lost:
                return body
            self._parts, self._size = [body], len(body)
        check_head(self.headers, limit_bytes)
        self._is_body_begun = True
        if self.waits_for_continue and not self._transport.is_closing():
            self.waits_for_continue = False
            self._transport.write(_CONTINUE)
        try:
            if not self.is_body_whole:
                await self._receive(limit_bytes)
            self._check_connection()
            check_length(self._size, limit_bytes)
            self._connection.read_on()
            return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        finally:
            self._parts = []

    async def start(self, status: int, headers: Headers) -> None:
        await self._send(b"".join(self._begin(status, headers)))

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        data = b"".join((*self._begin(status, headers), body))
        if self._flow.write_paused:
            await sent(self._flow.drain())
        if not self._transport.is_closing():
            self._transport.write(data)
            self._complete()

    async def answer(
        self, request_id: str, dialect: Dialect, further: Headers, body: bytes
    ) -> None:
        length = len(body)
        if further or self.is_last or not self.keep_alive or self._flow.write_paused:
            headers = answer_headers(request_id, content_length=length, dialect=dialect)
            await self.respond(200, headers + further, body)
        elif not self._transport.is_closing():
            self.response_started = True
            lines = answer_lines(request_id, content_length=length, dialect=dialect)
            head = self._connection.default_head()
            self._transport.write(b"".join((_OK, head, lines, _HEAD_END, body)))
            self._complete()

    async def write(self, data: bytes) -> None:
        if data:
            await self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def write_now(self, data: bytes) -> bool:
        if self._flow.write_paused:
            return False
        if not self._transport.is_closing():
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    async def end(self, data: bytes = b"") -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        await self._send(data)
        if not self._transport.is_closing():
            self._complete()

    async def abort(self, data: bytes = b"") -> None:
        if not self._flow.write_paused:
            await self.write(data)
        self._connection.cut_off()

    def fail(self) -> None:
        """End a request that its handler left without an end."""
        if self._transport.is_closing():
            return
        if not self.response_started:
            self.response_started = True
            body = error_body(InternalError())
            length = (b"content-length", b"%d" % len(body))
            self.keep_alive = False
            self._transport.write(b"".join((*self._head(500, (length,)), body)))
        self._transport.close()

    async def _send(self, data: bytes) -> None:
        if self._flow.write_paused:
            await sent(self._flow.drain())
        if not self._transport.is_closing():
            self._transport.write(data)

    def _begin(self, status: int, headers: Headers) -> tuple[bytes, ...]:
        """The parts of the answer's head; from now on nothing else can be answered."""
        is_body_unsure = self.headers.expects_continue and not self._is_body_begun
        if self.is_last or is_body_unsure:
            self.keep_alive = False
        self.response_started = True
        self.waits_for_continue = False
        return self._head(status, headers)

    def _complete(self) -> None:
        """Take note of the answer's end, of which all was written."""
        self.response_complete = True
        self._parts, self.body = [], None
        if not self.keep_alive:
            self._transport.close()
        self._connection.on_response_complete()

    def _head(self, status: int, headers: Headers) -> tuple[bytes, ...]:
        """The parts of an answer's head. Without a length the body is sent in chunks."""
        connection = self._connection
        lines = b"\r\n".join(map(_LINE, headers))
        if lines.count(b"\n") != len(headers) - 1:
            raise RuntimeError("a header of an answer holds a line feed")
        rest = b"\r\n\r\n"
        if lines.find(b"\ncontent-length: ") < 0 and not lines.startswith(b"content-length: "):
            self._is_chunked = True
            rest = b"\r\ntransfer-encoding: chunked\r\n\r\n"
        if not self.keep_alive:
            rest = b"\r\nconnection: close" + rest
        return STATUS_LINE[status], connection.default_head(), lines, rest

    async def _receive(self, limit_bytes: int) -> None:
        """Wait for the rest of the body, or for more of it than it may have."""
        loop = self._connection.loop
        began_s = loop.time()
        while not self.is_body_whole and self._size <= limit_bytes:
            self._check_connection()
            self._waiter = loop.create_future()
            self._flow.resume_reading()
            try:
                await received(self._waiter, self._size, waited_s=loop.time() - began_s)
            finally:
                self._waiter = None

    def _check_connection(self) -> None:
        if self._connection.is_lost:
            raise ClientLeft
        if self._connection.has_broken_body:
            raise InvalidRequest("The request body is not valid HTTP.")


class HotProtocol(GatewayProtocol):
    """A connection whose requests for the hot routes don't go by ASGI."""

    cycle: Any  # uvicorn's or a HotDownstream
    _known_heads: HeadMemory[tuple[Handler, CallerHeaders]]
    _new_head: bytes | None = None
    _body_left = 0
    _default_headers: object = None
    _default_head = b""

    def default_head(self) -> bytes:
        """The lines that every answer begins with; uvicorn makes a new list of them each second."""
        current = self.server_state.default_headers
        if current is not self._default_headers:
            self._default_headers = current
            self._default_head = b"".join(b"%b: %b\r\n" % header for header in current)
        return self._default_head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._known_heads = HeadMemory()

    def data_received(self, data: bytes) -> None:
        if self._body_left:
            self._take_body(data)
        elif (
            self._is_in_head
            and not (self._head_bytes or self._is_stopping or self.has_broken_body)
            and (self.cycle is None or self.cycle.response_complete)
        ):
            found = self._known_heads.find(data)
            if found is None:
                self._new_head = data
                super().data_received(data)
                self._new_head = None
            else:
                (handler, headers), length, end = found
                if headers.content_length != length:
                    headers = of_length(headers, length)
                self._begin_known(handler, headers, data[end:])
        else:
            super().data_received(data)

    def _begin_known(self, handler: Handler, headers: CallerHeaders, data: bytes) -> None:
        """Start a request whose head came before; its body is counted, the parser has no part."""
        self._watchdog.clear()
        self._is_head_timed = False
        self._unread_bytes = 0
        self.cycle = downstream = HotDownstream(self, handler, headers, keeps_alive=True)
        downstream.task = self.loop.create_task(self._serve(downstream))
        length = headers.content_length
        if len(data) == length:
            downstream.body, downstream.is_body_whole = data, True
        else:
            self._is_in_head = False
            self._body_left = length or 0
            if data:
                self._take_body(data)

    def _take_body(self, data: bytes) -> None:
        """Take what comes of such a request's body, and what comes after it."""
        left = self._body_left
        if len(data) < left:
            self._body_left = left - len(data)
            self.on_body(data)
            return
        self._body_left = 0
        self.on_body(data if len(data) == left else data[:left])
        self.on_message_complete()
        if len(data) > left:
            self.data_received(data[left:])

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if type(cycle) is HotDownstream and not cycle.response_complete:
            self._framing_bytes = 0
            cycle.take(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if type(cycle) is HotDownstream and not cycle.response_complete:
            self._is_in_head = True
            self._framing_bytes = 0
            cycle.end_body()
        else:
            super().on_message_complete()

    def _break_off(self) -> None:
        super()._break_off()
        if type(self.cycle) is HotDownstream:
            self.cycle.wake()

    def _begin(self) -> None:
        new_head, self._new_head = self._new_head, None  # what comes behind is another's
        handler = HOT_ROUTES.get(self.url)
        parser, before = self.parser, self.cycle
        if (
            handler is None
            or parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or parser.should_upgrade()
        ):
            super()._begin()
            return
        headers, keeps_alive = read_headers(self.headers), bool(parser.should_keep_alive())
        downstream = HotDownstream(self, handler, headers, keeps_alive=keeps_alive)
        downstream.waits_for_continue = self.expect_100_continue
        if new_head is not None and keeps_alive and not headers.expects_continue:
            self._known_heads.learn(new_head, (handler, headers))
        self.cycle = downstream
        if before is None or before.response_complete:
            self._start_asgi_task(downstream, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cast("Any", downstream), self.app))

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if type(cycle) is not HotDownstream:
            super()._start_asgi_task(cycle, app)
            return
        cycle.task = self.loop.create_task(self._serve(cycle))

    async def _serve(self, downstream: HotDownstream) -> None:
        """Answer one request, as one of the tasks that a stop waits for."""
        app: GatewayApp = self.config.app  # type: ignore[assignment]
        task = downstream.task
        self.tasks.add(task)
        downstream.is_last = app.services.is_draining
        try:
            try:
                await downstream.handler(app.services, downstream)
            except GatewayError as error:
                await app.refuse(downstream, error)
            except Exception:
                log.exception("request handler failed")
                await app.refuse(downstream, InternalError())
        except Exception:
            log.exception("answer failed")
        finally:
            if not downstream.response_complete:
                downstream.fail()
            self.tasks.discard(task)

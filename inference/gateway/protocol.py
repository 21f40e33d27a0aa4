"""The server's side of a connection: uvicorn's, with what a gateway needs of it besides.

The hook (`http=`) is public, what is overridden here is not: uvicorn is pinned, and the tests of
this module say what is relied on. Added: a call when the client is gone, an end without an end for
broken streams, bounds on heads and on bodies nobody reads, refusals in OpenAI's shape, a stop that
answers the request that is on its way, one timer a connection in place of three a request.
"""

import asyncio
import re
import sys
from collections.abc import Callable

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from inference.errors import GatewayError, InternalError, InvalidRequest
from inference.gateway.error_responses import error_body
from inference.watchdog import Watchdog

EXTENSION = "headworks.connection"
"""Under this name the connection is found in the extensions of an ASGI scope."""

# Headers of real clients stay below 16 KiB; most proxies stop at 32. What surrounds a chunked
# body's parts, trailers above all, may come to as much between two of them.
MAX_HEAD_BYTES = 64 * 1024

# From the first byte of a head to its last; slower than any network, shorter than patience.
HEAD_TIMEOUT_S = 30.0

# What a client may still send of a body that was answered without being read, so that it comes to
# read the answer instead of a reset.
MAX_UNREAD_BYTES = 64 * 1024 * 1024

# When the process stops, a kept connection may bring a request for this long: its client was not
# told yet, and would lose one it sends just now.
LAST_REQUEST_S = 1.0

# More than nothing: with nothing it would be the same turn of the loop.
_NEXT_TURN_S = 0.01

# What the last bytes of a broken stream get to reach a client that reads slowly.
FLUSH_S = 5.0


# Java's client offers HTTP/2 on every first request, and the parser would take no body after that.
_UPGRADE = re.compile(rb"(?i)(\r\n)upgrade:")


# What a parser's callback raises of a request line that is none; all else there is our fault.
_BAD_TARGET = (httptools.HttpParserInvalidURLError, UnicodeDecodeError)

log = structlog.get_logger(__name__)


class GatewayProtocol(HttpToolsProtocol):
    """One client connection. `on_lost` is called once, when the client is gone."""

    on_lost: Callable[[], None] | None = None
    is_lost = False
    has_broken_body = False
    """Whether the request's body is no HTTP; nothing that comes after it is read."""
    _is_stopping = False
    _is_in_head = True
    _is_head_timed = False
    _head_bytes = 0
    _unread_bytes = 0
    _framing_bytes = 0
    _hosts = 0
    _watchdog: Watchdog

    @property
    def is_write_paused(self) -> bool:
        """Whether the client reads more slowly than it is written to."""
        return self.flow.write_paused

    @property
    def has_unsent(self) -> bool:
        """Whether anything that was written waits for the client to read."""
        return self.transport.get_write_buffer_size() > 0

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the request's body has arrived."""
        return self._is_in_head

    def shutdown(self) -> None:
        """Take one more request if one comes soon, and close.

        An answer whose head promised to go on is followed by that one request.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            if not self.cycle.response_started:
                self.cycle.keep_alive = False
        elif self._is_in_head and not self._head_bytes:
            self._close_soon()

    def cut_off(self) -> None:
        """Close without a proper end, as soon as what was written is out or `FLUSH_S` passed."""
        self.transport.close()
        self._watchdog.set(FLUSH_S, self.transport.abort)

    async def gone(self) -> None:
        """Return once the client is gone; takes the place of any other `on_lost`."""
        if not self.is_lost:
            told = asyncio.Event()
            self.on_lost = told.set
            await told.wait()

    def read_on(self) -> None:
        """Read on behind a body that was taken: a paused connection doesn't tell of its end."""
        if not (self.pipeline or self.transport.is_closing()):
            self.flow.resume_reading()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watchdog = Watchdog(self.loop)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._watchdog.close()
        super().connection_lost(exc)
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()
        # requests refer back to it: so nothing of it waits for the collector
        self.pipeline.clear()
        self.cycle = self.scope = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self.has_broken_body:
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if b"pgrade:" in data:
                data = _UPGRADE.sub(rb"\1x-not-upgraded:", data)
        else:
            self._framing_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, InvalidRequest("The request's headers are too large."))
        elif self._framing_bytes > MAX_HEAD_BYTES:
            self._refuse(400, InvalidRequest("The request's chunks or trailers are too large."))

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._hosts = 0
        self._head_bytes = self._head_bytes or 1  # it may begin in what came with a body's end
        if not self._is_head_timed or self._is_stopping:
            self._time_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            return  # a trailer is no header
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"host":
            self._hosts += 1
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() != "1.0"):
            raise InvalidRequest("The request has no Host header, or more than one.")
        self._watchdog.clear()
        self._is_in_head = self._is_head_timed = False
        self._head_bytes = self._framing_bytes = self._unread_bytes = 0
        if not self.url.startswith((b"/", b"http")):
            raise httptools.HttpParserInvalidURLError
        self._begin()
        if self._is_stopping:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self.transport.abort()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._framing_bytes = 0
        if self.cycle.response_complete:
            self._wait_for_next()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        is_closing = self.transport.is_closing()
        if not is_closing:
            if self.flow.read_paused:
                self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
        if not self.cycle.response_complete:
            return
        if not self._is_in_head:
            self._watchdog.set(HEAD_TIMEOUT_S, self.transport.abort)  # for a body nobody reads
        elif not (is_closing or self._is_head_timed):
            self._wait_for_next()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser stopped at: no HTTP, or a callback that failed."""
        stopped = sys.exception()
        fault = stopped.__context__ if stopped is not None else None
        is_callback = isinstance(stopped, httptools.HttpParserCallbackError)
        if isinstance(fault, InvalidRequest):
            self._refuse(400, fault)
        elif is_callback and not isinstance(fault, _BAD_TARGET):
            log.error("request parser failed", exc_info=fault)
            self._refuse(500, InternalError())
        else:
            self._refuse(400, InvalidRequest(msg))

    def _refuse(self, status: int, error: GatewayError) -> None:
        """Answer something that is no request, unless an answer is on its way already."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._break_off()
            return
        body = error_body(error)
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], len(body), body)
        )
        self.cut_off()

    def _begin(self) -> None:
        """Start the request whose head has come, by ASGI, or queue it up behind another."""
        kept = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # which makes a scope
        self.url, self.headers, self.expect_100_continue = kept
        self.scope["headers"] = self.headers
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        super().on_headers_complete()

    def _break_off(self) -> None:
        """End a request under way: by its own answer if its body is at fault and none has begun."""
        if self._is_in_head or self.pipeline or self.cycle.response_started:
            self.transport.abort()
            return
        self.has_broken_body = True
        self.cycle.keep_alive = False
        self.cycle.message_event.set()

    def _wait_for_next(self) -> None:
        """Close a connection that is free after a while, soon if the process stops."""
        if self._is_stopping:
            self._close_soon()
        else:
            self._watchdog.set(self.timeout_keep_alive, self.transport.close)

    def _close_soon(self) -> None:
        """Close a connection that is free unless a request comes.

        What came while the loop was busy is read before the second of the times is over.
        """
        self._watchdog.set(LAST_REQUEST_S, self._close_next)

    def _close_next(self) -> None:
        self._watchdog.set(_NEXT_TURN_S, self.transport.close)

    def _time_head(self) -> None:
        self._is_head_timed = True
        self._watchdog.set(HEAD_TIMEOUT_S, self.transport.abort)

"""The server's side of a connection: uvicorn's, with what a gateway needs of it besides.

The hook (`http=`) is public, what is overridden here is not: uvicorn is pinned, and the tests of
this module say what is relied on. Added: a call when the client is gone, an end without an end for
broken streams, bounds on heads and on bodies nobody reads, refusals in OpenAI's shape, a stop that
answers the request that is on its way.
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
    _head_bytes = 0
    _unread_bytes = 0
    _framing_bytes = 0
    _guard: asyncio.TimerHandle | None = None

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
        self._set_guard(FLUSH_S)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_guard(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._stop_guard()
        super().connection_lost(exc)
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()

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
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        if self._guard is None or self._is_stopping:
            self._set_guard(HEAD_TIMEOUT_S)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # a trailer is no header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_guard()
        self._is_in_head = False
        self._head_bytes = self._framing_bytes = self._unread_bytes = 0
        if not self.url.startswith((b"/", b"http")):
            raise httptools.HttpParserInvalidURLError
        super().on_headers_complete()
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
            self._stop_guard()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self._is_in_head:
            self._set_guard(HEAD_TIMEOUT_S)  # for the rest of a body nobody reads
        elif self._is_stopping and self.cycle.response_complete and not self._head_bytes:
            self._close_soon()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser stopped at: no HTTP, or a callback that failed."""
        stopped = sys.exception()
        fault = stopped.__context__ if stopped is not None else None
        is_callback = isinstance(stopped, httptools.HttpParserCallbackError)
        if is_callback and not isinstance(fault, _BAD_TARGET):
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

    def _break_off(self) -> None:
        """End a request under way: by its own answer if its body is at fault and none has begun."""
        if self._is_in_head or self.pipeline or self.cycle.response_started:
            self.transport.abort()
            return
        self.has_broken_body = True
        self.cycle.keep_alive = False
        self.cycle.message_event.set()

    def _close_soon(self) -> None:
        """Close a connection that is free unless a request comes.

        What came while the loop was busy is read before the second of the timers is looked at.
        """
        self._stop_guard()
        self._guard = self.loop.call_later(LAST_REQUEST_S, self._close_next)

    def _close_next(self) -> None:
        self._guard = self.loop.call_later(_NEXT_TURN_S, self.transport.close)

    def _set_guard(self, delay_s: float) -> None:
        self._stop_guard()
        self._guard = self.loop.call_later(delay_s, self.transport.abort)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

"""The server's side of a connection: uvicorn's, with what a gateway needs of it besides.

The hook (`http=`) is public, what is overridden here is not: uvicorn is pinned, and the tests of
this module say what is relied on. Added: a call when the client is gone, an end without an end for
broken streams, bounds on heads and on bodies nobody reads, refusals in OpenAI's shape.
"""

import asyncio
import re
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from inference.errors import InvalidRequest
from inference.gateway.error_responses import error_body

EXTENSION = "headworks.connection"
"""Under this name the connection is found in the extensions of an ASGI scope."""

# Headers of real clients stay below 16 KiB; most proxies stop at 32.
MAX_HEAD_BYTES = 64 * 1024

# From the first byte of a head to its last; slower than any network, shorter than patience.
HEAD_TIMEOUT_S = 30.0

# What a client may still send of a body that was answered without being read, so that it comes to
# read the answer instead of a reset.
MAX_UNREAD_BYTES = 64 * 1024 * 1024

# What the last bytes of a broken stream get to reach a client that reads slowly.
FLUSH_S = 5.0


# Java's client offers HTTP/2 on every first request, and the parser would take no body after that.
_UPGRADE = re.compile(rb"(?i)(\r\n)upgrade:")


class GatewayProtocol(HttpToolsProtocol):
    """One client connection. `on_lost` is called once, when the client is gone."""

    on_lost: Callable[[], None] | None = None
    is_lost = False
    has_broken_body = False
    """Whether the request's body is no HTTP; nothing that comes after it is read."""
    _is_in_head = True
    _head_bytes = 0
    _unread_bytes = 0
    _guard: asyncio.TimerHandle | None = None

    @property
    def is_write_paused(self) -> bool:
        """Whether the client reads more slowly than it is written to."""
        return self.flow.write_paused

    @property
    def has_whole_body(self) -> bool:
        """Whether all of the request's body has arrived."""
        return self._is_in_head

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
        super().data_received(data)
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "The request's headers are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        if self._guard is None:
            self._set_guard(HEAD_TIMEOUT_S)

    def on_headers_complete(self) -> None:
        self._stop_guard()
        self._is_in_head = False
        self._head_bytes = 0
        self._unread_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self.transport.abort()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_head = True
        if self.cycle.response_complete:
            self._stop_guard()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self._is_in_head:
            self._set_guard(HEAD_TIMEOUT_S)  # for the rest of a body nobody reads

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answer something that is no request, unless an answer is on its way already."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._break_off()
            return
        body = error_body(InvalidRequest(message))
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

    def _set_guard(self, delay_s: float) -> None:
        self._stop_guard()
        self._guard = self.loop.call_later(delay_s, self.transport.abort)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None

"""Connections to workers: kept, reused newest first, opened only to addresses that were checked.

An origin is one scheme, host and port. A connection serves one request at a time and goes back to
its origin when the answer is complete.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from typing import cast
from urllib.parse import urlsplit

from inference.contract.values import frozen
from inference.errors import UpstreamClosed, UpstreamForbidden, UpstreamUnreachable
from inference.heads import HeadMemory
from inference.watchdog import Watchdog
from inference.workers.answers import Answer, AnswerHead
from inference.workers.pace import Pulse, Timeouts

# Servers close an idle connection after 5 s (uvicorn, so vLLM) to some minutes; a stale one costs a
# retry, so the limit only keeps those of a worker that is gone from staying.
MAX_IDLE_S = 60.0

# A worker's host that is gone acknowledges nothing: what was sent to it is given up after this, and
# a connection on which nothing was said is asked after that often.
DEAD_PEER_S = 20
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))

# A stream's closing chunk usually follows its last event within the same millisecond.
LINGER_S = 1.0

_OK = b"HTTP/1.1 200 "

IsForbidden = Callable[[str, int], bool]
"""Whether this resolved address and port may not be connected to."""


@frozen
class Request:
    """A POST ready to go: `headers` are whole lines, each with its line end."""

    path: bytes
    headers: bytes
    body: bytes


class Connection(asyncio.Protocol):
    """One connection of an origin."""

    def __init__(self, origin: "Origin") -> None:
        self._origin = origin
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._watchdog = Watchdog(self._loop)
        self.idle_since_s = 0.0

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: Request, timeouts: Timeouts) -> Answer:
        """Send a request; the connection must be usable and free."""
        assert self._transport is not None
        length = b"%d\r\n" % len(request.body)
        head = b"".join(
            (b"POST ", request.path, self._origin.host_line, length, request.headers, b"\r\n")
        )
        self._answer = answer = Answer(
            self._transport,
            loop=self._loop,
            timeouts=timeouts,
            watchdog=self._watchdog,
            on_settled=self._settle,
        )
        self._transport.writelines((head, request.body))
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        _notice_death(self._transport.get_extra_info("socket"))
        self._origin.opened(self)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.is_complete:
            self.abort()  # nobody asked
            return
        if answer.has_bytes:
            answer.feed(data)
        else:
            self._feed_first(answer, data)
        if self._linger is not None:
            self._go_on_lingering(answer)

    def _feed_first(self, answer: Answer, data: bytes) -> None:
        """Take the first of an answer, which mostly is all of it, under a head that came before."""
        heads = self._origin.heads
        found = heads.find(data)
        if found is not None:
            head, length, start = found
            if len(data) == start + length:
                answer.take(head, data[start:])
                return
        answer.feed(data)
        is_whole = found is None and answer.is_complete and answer.keeps_alive
        if is_whole and data.startswith(_OK):  # or the first head would be an interim one
            heads.learn(data, answer.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_lingering()
        self._origin.forget(self)
        if self._answer is not None:
            self._answer.end(exc)
            self._detach()
        self._watchdog.close()

    def _settle(self, answer: Answer) -> None:
        """Take the connection back from an answer that nobody reads any more."""
        if answer is not self._answer:
            return
        if self._may_be_kept(answer):
            answer.parser = None  # which refers back to it
            self._answer = None
            self._origin.keep(self, self._loop)
        elif answer.may_linger and self.is_usable and not answer.is_complete:
            self._linger = self._loop.call_later(LINGER_S, self.abort)
        else:
            self._detach()
            self.abort()

    def _detach(self) -> None:
        if self._answer is not None:
            self._answer.parser = None  # which refers back to it
            self._answer = None

    def _may_be_kept(self, answer: Answer) -> bool:
        return (
            answer.is_complete
            and answer.keeps_alive
            and self._transport is not None
            and not self._transport.is_closing()
            and self._transport.get_write_buffer_size() == 0
        )

    def _go_on_lingering(self, answer: Answer) -> None:
        if answer.has_unread:
            self.abort()
        elif answer.is_complete:
            self._stop_lingering()
            self._settle(answer)

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None


class Origin:
    """Where requests of one scheme, host and port go, and the connections kept to it."""

    def __init__(
        self,
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        is_forbidden: IsForbidden,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._is_forbidden = is_forbidden
        self._all: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self.heads: HeadMemory[AnswerHead] = HeadMemory()
        self.host_header = host_header = _host_header(host, port, is_tls=tls is not None)
        self.host_line = b" HTTP/1.1\r\nhost: %b\r\ncontent-length: " % host_header

    @property
    def idle_count(self) -> int:
        return len(self._idle)

    async def post(
        self, request: Request, timeouts: Timeouts, pulse: Pulse | None = None
    ) -> Answer:
        """Send a request and return its answer once status and headers are there.

        While a worker that was sent it says nothing, `pulse` beats; not while connecting.
        A kept connection that turns out to be closed before a byte came back is replaced by a new
        one, once. Raises UpstreamError; when cancelled, the connection is cut off.
        """
        kept = self._newest_idle()
        if kept is None:
            return await self._ask(request, timeouts, pulse)
        answer = kept.send(request, timeouts)
        try:
            await answer.wait_head(pulse)
            return answer
        except UpstreamClosed:
            answer.close()
            if answer.has_bytes:
                raise
        except BaseException:
            answer.close()
            raise
        try:
            return await self._ask(request, timeouts, pulse)
        except UpstreamClosed as error:
            error.may_repeat = False  # this was the repetition
            raise

    def opened(self, connection: Connection) -> None:
        """Take note of a new connection."""
        self._all.add(connection)

    def keep(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Take back a connection that is free."""
        connection.idle_since_s = loop.time()
        self._idle[connection] = None
        if self._sweep is None:
            self._sweep = loop.call_later(MAX_IDLE_S, self._close_old)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that is gone."""
        self._all.discard(connection)
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Cut off every connection, whoever uses it."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._all):
            connection.abort()

    async def _ask(self, request: Request, timeouts: Timeouts, pulse: Pulse | None) -> Answer:
        """Send on a new connection, unless it is lost again as soon as it was made."""
        connection = await self._connect(timeouts.connect_s)
        if not connection.is_usable:
            raise UpstreamUnreachable
        return await _with_head(connection.send(request, timeouts), pulse)

    def _newest_idle(self) -> Connection | None:
        idle = self._idle
        while idle:
            connection, _ = idle.popitem()
            if connection.is_usable:
                return connection
        return None

    async def _connect(self, connect_s: float) -> Connection:
        try:
            async with asyncio.timeout(connect_s):
                return await self._connect_to_first(await self._addresses())
        except (OSError, TimeoutError, UnicodeError) as error:
            raise UpstreamUnreachable from error

    async def _addresses(self) -> list[str]:
        """The addresses of the host that may be called; raises UpstreamForbidden if none may."""
        if _is_address(self._host):
            addresses = [self._host]  # there is nothing to look up, which takes a thread
        else:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        allowed = [one for one in addresses if not self._is_forbidden(one, self._port)]
        if not allowed:
            raise UpstreamForbidden
        return allowed

    async def _connect_to_first(self, addresses: list[str]) -> Connection:
        loop = asyncio.get_running_loop()
        for address in addresses[:-1]:
            try:
                return await self._open(loop, address)
            except OSError:
                continue
        return await self._open(loop, addresses[-1])

    async def _open(self, loop: asyncio.AbstractEventLoop, address: str) -> Connection:
        _, connection = await loop.create_connection(
            lambda: Connection(self),
            address,
            self._port,
            ssl=self._tls,
            server_hostname=self._host if self._tls else None,
        )
        return connection

    def _close_old(self) -> None:
        """Close what nobody used for long, oldest first, and come back for the rest."""
        loop = asyncio.get_running_loop()
        self._sweep = None
        while self._idle:
            oldest = next(iter(self._idle))
            left_s = oldest.idle_since_s + MAX_IDLE_S - loop.time()
            if left_s > 0:
                self._sweep = loop.call_later(left_s, self._close_old)
                return
            del self._idle[oldest]
            oldest.abort()


class Connections:
    """All origins of a process. It owns no worker state; `close` ends them.

    `tls` says whom to trust; it is asked once, when the first origin needs it.
    """

    def __init__(
        self,
        *,
        is_forbidden: IsForbidden,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._is_forbidden = is_forbidden
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._origins: dict[tuple[str, str, int], Origin] = {}

    def origin_of(self, base_url: str) -> Origin:
        """The origin of a base URL that passed `decisions.egress.problem_with_address`."""
        parts = urlsplit(base_url)
        is_tls = parts.scheme == "https"
        key = (parts.scheme, parts.hostname or "", parts.port or (443 if is_tls else 80))
        origin = self._origins.get(key)
        if origin is None:
            tls = self._context() if is_tls else None
            origin = Origin(host=key[1], port=key[2], tls=tls, is_forbidden=self._is_forbidden)
            self._origins[key] = origin
        return origin

    def close(self) -> None:
        """Cut off every connection."""
        for origin in self._origins.values():
            origin.close()

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = self._make_tls()
        return self._tls


def path_of(base_url: str, endpoint: str) -> bytes:
    """The request target of an endpoint under a base URL: `/v1` and `/x` make `/v1/x`."""
    parts = urlsplit(base_url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.path.rstrip('/')}{endpoint}{query}".encode()


def root_path_of(base_url: str, endpoint: str) -> bytes:
    """The request target of an endpoint beside the versioned ones: `/v1` and `/x` make `/x`."""
    parts = urlsplit(base_url)
    return path_of(
        parts._replace(path=parts.path.rstrip("/").removesuffix("/v1")).geturl(), endpoint
    )


async def _with_head(answer: Answer, pulse: Pulse | None) -> Answer:
    try:
        await answer.wait_head(pulse)
    except BaseException:
        answer.close()
        raise
    return answer


def _notice_death(connection: socket.socket) -> None:
    """Have the system find out that the other end's host is gone, well before our time-outs."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_S * 1000)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _is_address(host: str) -> bool:
    """Whether a host is an address as it stands."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _host_header(host: str, port: int, *, is_tls: bool) -> bytes:
    name = f"[{host}]" if ":" in host else host
    default = 443 if is_tls else 80
    return (name if port == default else f"{name}:{port}").encode()

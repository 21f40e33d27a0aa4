"""One HTTP/1.1 response as it comes in: parsed, bounded, read at the reader's pace."""

import asyncio
from collections.abc import Callable

import httptools
import structlog

from inference.contract.shapes import shaped
from inference.errors import (
    GatewayError,
    InternalError,
    UpstreamBadAnswer,
    UpstreamClosed,
    UpstreamTimedOut,
)
from inference.watchdog import Watchdog
from inference.workers.framing import LINE_END, size_line
from inference.workers.pace import Pulse, Take, Timeouts

# A head is a few hundred bytes; servers themselves stop at 8 to 64 KiB. As much may come between
# two parts of a chunked body.
MAX_HEAD_BYTES = 64 * 1024

# Read ahead of a slow client by this much, then stop reading: the worker's own buffers fill up and
# it waits, as it would for a slow client of its own.
READ_AHEAD_BYTES = 128 * 1024


AnswerHead = tuple[int, bytes, bytes]
"""Status, content-type and retry-after."""

log = structlog.get_logger(__name__)


@shaped
class Answer:
    """A response being received; whoever holds it must `close` it, as often as they like.

    `status`, `content_type` and `retry_after` are there once `wait_head` has returned. `began_s` is
    when the request was sent, on the loop's clock. Every error of its own is an UpstreamError.
    """

    # made of what differs from these, which takes a third of the time that setting all does
    status = 0
    content_type = b""
    retry_after = b""
    has_bytes = False
    has_head = False
    is_complete = False
    keeps_alive = False
    may_linger = False
    _size = 0
    _framing_bytes = 0
    _has_body = False
    _is_flowing = False
    _is_between_chunks = False
    _has_length = False
    _waiter: asyncio.Future[None] | None = None
    _due_s: float | None = None
    _take: Take | None = None
    _left_s: Callable[[], float] | None = None
    _alarm: asyncio.TimerHandle | None = None
    parser: "httptools.HttpResponseParser | None" = None
    is_paused = False
    _error: GatewayError | None = None
    _fault: GatewayError | None = None
    _is_interim = False

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        timeouts: Timeouts,
        watchdog: Watchdog,
        on_settled: Callable[["Answer"], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._timeouts = timeouts
        self._watchdog = watchdog
        self._on_settled: Callable[[Answer], None] | None = on_settled
        self._chunks: list[bytes] = []
        self.began_s = self._quiet_since_s = loop.time()
        watchdog.set(timeouts.first_byte_s, self._check_time)

    async def wait_head(self, pulse: Pulse | None = None) -> None:
        """Return once status and headers are there."""
        while not self.has_head:
            if pulse is None:
                if self._error is not None:
                    raise self._error
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
                if self._error is not None:
                    raise self._error
            elif not await self._wait(pulse.left_s()) and not self.has_head:
                await pulse.beat()

    async def read(self, wait_s: float | None = None) -> bytes | None:
        """Return all bytes that came since the last read, waiting for some if there are none.

        b"" is the end of a complete answer; None says that `wait_s` passed without a byte.
        """
        while not self._chunks:
            if self.is_complete:
                return b""
            if not await self._wait(wait_s):
                return None
        data = self._taken()
        self._resume()
        return data

    async def relay(self, take: Take, left_s: Callable[[], float]) -> bool:
        """Give `take` all that comes, from the call that received it, until it wants no more.

        It gets b"" at the end of a complete answer; what it raises is raised here. False says that
        `left_s`, which is asked again whenever the time it gave is over, has run out.
        """
        self._take, self._left_s = take, left_s
        try:
            self._offer()
            while self._take is not None:
                await self._wait(left_s())
                if self._take is not None and left_s() <= 0:
                    return False
            if self._fault is not None:
                raise self._fault
            return True
        finally:
            self._take = self._left_s = None

    def taken_whole(self) -> bytes | None:
        """All of it if all is here already and of no great size; None is for `read_all` to read."""
        if not self.is_complete or self._size > READ_AHEAD_BYTES:
            return None
        return self._taken()

    async def read_all(self, limit_bytes: int) -> bytes:
        """Return the whole body; one longer than the limit is an UpstreamBadAnswer."""
        parts: list[bytes] = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > limit_bytes:
                raise UpstreamBadAnswer
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self, *, is_read: bool = False) -> None:
        """Give the connection back: kept if the answer is complete, else cut off.

        `is_read` says that only the end of the message may be missing; it is waited for briefly.
        """
        settled, self._on_settled = self._on_settled, None
        if settled is None:
            return  # the connection, and its watchdog, may be another answer's by now
        self._watchdog.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.may_linger = is_read and not (self.is_complete or self.is_paused or self._chunks)
        settled(self)

    @property
    def has_body(self) -> bool:
        """Whether any of its body has come."""
        return self._has_body or self.is_complete

    @property
    def has_unread(self) -> bool:
        return bool(self._chunks)

    def feed(self, data: bytes) -> None:
        """Take what the connection received."""
        if self._is_between_chunks and self._take is not None:
            line = size_line(len(data))
            if data.startswith(line) and data.endswith(LINE_END):
                # one whole chunk: the parser, which was between two, misses nothing
                self._quiet_since_s = self._loop.time()
                self._give(data[len(line) : -2])
                return
        if not self.has_bytes:
            self.has_bytes = True
            self.parser = httptools.HttpResponseParser(self)
        had_head = self.has_head
        self._framing_bytes += len(data)
        self._is_between_chunks = False
        try:
            if self.parser is not None:
                self.parser.feed_data(data)
            if self._is_between_chunks:
                # unless a part of the next one's size came as well
                self._is_between_chunks = self._is_flowing and data.endswith(LINE_END)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if isinstance(error, httptools.HttpParserCallbackError):
                log.error("answer parser failed", exc_info=error)
            self.keeps_alive = False
            if not self.is_complete:
                self._offer()  # what came before the break
            self.fail(UpstreamBadAnswer())
        if self._framing_bytes > MAX_HEAD_BYTES and not self.is_complete:
            self.fail(UpstreamBadAnswer())
        if not self.has_head:
            return
        if self.is_complete:
            self._watchdog.clear()
        elif self._has_body:
            if self._size:
                self._quiet_since_s = self._loop.time()
        elif self._size:
            self._note_first_byte()
        if self._take is not None and self._error is None:
            self._offer()
        elif self._size or self.is_complete or not had_head:
            self._wake()
        if self._size > READ_AHEAD_BYTES and not self.is_complete:
            self._pause()

    def take(self, head: AnswerHead, body: bytes) -> None:
        """Take an answer that came whole, whose head is known."""
        if self._error is not None:
            return
        self.has_bytes = self.has_head = self.is_complete = self.keeps_alive = True
        self.status, self.content_type, self.retry_after = head
        if body:
            self._chunks.append(body)
            self._size = len(body)
        self._watchdog.clear()
        if self._take is not None:
            self._offer()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def head(self) -> AnswerHead:
        """What was read of its head."""
        return self.status, self.content_type, self.retry_after

    def end(self, error: Exception | None) -> None:
        """Take note that the connection is gone; a body of no stated length ends this way."""
        if error is None and self.has_head and not self._has_length and self._error is None:
            self.is_complete = True
            self._watchdog.clear()
            self._offer()  # which wakes who waits
        else:
            self.fail(UpstreamClosed())

    def fail(self, error: GatewayError) -> None:
        """Make this the outcome, unless there is one, and cut the connection off."""
        if self._error is None and not self.is_complete:
            self._error, self._is_flowing, self._is_between_chunks = error, False, False
            self._watchdog.clear()
            self._transport.abort()
            self._wake()

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.keeps_alive = False  # a second answer nobody asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            return
        match name.lower():
            case b"content-type":
                self.content_type = value.lower()
            case b"content-length" | b"transfer-encoding":
                self._has_length = True
            case b"retry-after":
                self.retry_after = value

    def on_headers_complete(self) -> None:
        if self.parser is None or self.is_complete:
            return
        self.status = self.parser.get_status_code()
        if self.status < 200:
            self._is_interim = True
        else:
            self.has_head = True

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        if not self.is_complete:
            self._chunks.append(body)
            self._size += len(body)

    def on_chunk_header(self) -> None:
        self._is_between_chunks = False

    def on_chunk_complete(self) -> None:
        self._is_between_chunks = True

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
        elif self.parser is not None and not self.is_complete:
            self.is_complete, self._is_flowing = True, False
            self.keeps_alive = self.parser.should_keep_alive()

    def _taken(self) -> bytes:
        """The bytes that came and were not read."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks = []
        self._size = 0
        return data

    def _offer(self) -> None:
        """Give what came to whoever takes it as it comes; who wants no more is woken."""
        while self._take is not None and (self._chunks or self.is_complete):
            self._give(self._taken())
        if self._take is None:
            self._wake()

    def _give(self, data: bytes) -> None:
        assert self._take is not None
        try:
            if self._take(data):
                return
        except GatewayError as error:
            self._fault = error
        except Exception:
            log.exception("answer not passed on")
            self._fault = InternalError()
        self._take = None
        self._wake()

    async def _wait(self, wait_s: float | None) -> bool:
        """Wait for something to happen; False if it was `wait_s` that passed."""
        if self._error is not None:
            raise self._error
        self._waiter = waiter = self._loop.create_future()
        if wait_s is not None:
            self._wake_at(self._loop.time() + wait_s)
        self._resume()
        try:
            await waiter
        finally:
            self._waiter = self._due_s = None
        # whoever stopped taking before the failure has to learn of that first
        if self._error is not None and (self._take is not None or self._left_s is None):
            raise self._error
        return wait_s is None or bool(self._chunks) or self.is_complete

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _wake_at(self, due_s: float) -> None:
        """Wake then at the latest. A timer that rings sooner stays: one for each read is dear."""
        self._due_s = due_s
        if self._alarm is None or self._alarm.when() > due_s:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(due_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._due_s is None:
            return
        if self._left_s is not None:
            self._due_s = self._loop.time() + self._left_s()
        if self._due_s > self._loop.time():
            self._alarm = self._loop.call_at(self._due_s, self._ring)
        else:
            self._wake()

    def _pause(self) -> None:
        if not self.is_paused and not self._transport.is_closing():
            self.is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self.is_paused and not self._transport.is_closing():
            self.is_paused = False
            self._quiet_since_s = self._loop.time()
            self._transport.resume_reading()

    def _note_first_byte(self) -> None:
        if self._error is None:
            self._quiet_since_s = self._loop.time()
            self._has_body = self._is_flowing = True
            self._watchdog.set(self._timeouts.idle_s, self._check_time)

    def _check_time(self) -> None:
        """Fail if nothing came for too long; a pause of ours is not the worker's silence."""
        limit_s = self._timeouts.idle_s if self._has_body else self._timeouts.first_byte_s
        now_s = self._loop.time()
        if self.is_paused:
            self._quiet_since_s = now_s
        left_s = self._quiet_since_s + limit_s - now_s
        if left_s > 0:
            self._watchdog.set(left_s, self._check_time)
        else:
            self.fail(UpstreamTimedOut())

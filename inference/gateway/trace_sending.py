"""The way of spans to their receiver: in batches, in the background, at the receiver's pace.

A receiver that fails is asked again with the same batch, ever more rarely; meanwhile the queue runs
full and what finds it so is dropped. Requests notice nothing of all that.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from inference.contract.values import frozen
from inference.errors import UpstreamError
from inference.observability.trace_context import Traced
from inference.observability.trace_metrics import Dropped, TraceMetrics
from inference.workers.connections import Connections, Request, path_of
from inference.workers.pace import Timeouts

BATCH = 128
"""Requests a message: some 500 spans, 200 KB."""

COLLECT_S = 0.5
"""So often it is looked what there is to send."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
TRIES = 5
"""So often is a batch sent to a receiver that can't be reached or asks for patience."""

_LAST_WORDS_S = 1.0
_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=10.0, idle_s=10.0)
_MAX_ANSWER_BYTES = 64 * 1024
_TRY_AGAIN = frozenset((429, 502, 503, 504))

log = structlog.get_logger(__name__)


class Encoder(Protocol):
    """Makes messages of requests; see `observability.spans.SpanEncoder`."""

    def add(self, traced: Traced) -> None: ...

    def take(self) -> bytes: ...

    def refused_in(self, answer: bytes) -> int: ...


@frozen
class Receipt:
    """What the receiver said to a message."""

    status: int
    body: bytes


class Receiver:
    """Where spans go. `url` passed the policy on addresses; what it resolves to is judged again."""

    def __init__(self, url: str, *, header_lines: bytes, connections: Connections) -> None:
        self._origin = connections.origin_of(url)
        self._path = path_of(url, "")
        self._headers = b"content-type: application/x-protobuf\r\n" + header_lines
        self._connections = connections

    async def post(self, message: bytes) -> Receipt:
        """Send one message, or raise UpstreamError."""
        request = Request(path=self._path, headers=self._headers, body=message)
        answer = await self._origin.post(request, _TIMEOUTS)
        try:
            body = await answer.read_all(_MAX_ANSWER_BYTES)
        finally:
            answer.close(is_read=True)
        return Receipt(answer.status, body)

    def close(self) -> None:
        self._connections.close()


class TraceSender:
    """Empties the queue of a tracer for as long as it runs."""

    def __init__(
        self,
        queue: deque[Traced],
        *,
        encoder: Encoder,
        receiver: Receiver,
        metrics: TraceMetrics,
        chance: Callable[[], float],
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._queue = queue
        self._encoder = encoder
        self._receiver = receiver
        self._metrics = metrics
        self._chance = chance
        self._first_pause_s = first_pause_s
        self._is_reached = True

    async def run(self) -> None:
        """Send what comes; when cancelled, what is left is sent once more if that is quick."""
        try:
            while True:
                await asyncio.sleep(COLLECT_S)
                while self._queue:
                    await self._pass_on(self._send)
        except asyncio.CancelledError:
            await self._say_last_words()
            raise
        finally:
            self._receiver.close()

    async def _pass_on(self, give: Callable[[bytes, int], Awaitable[bool]]) -> bool:
        """Give a batch away; False if nobody took it.

        An error of ours costs its spans, counted: streams must not end for their sake.
        """
        spans = await self._collect()
        if not spans:
            return True
        try:
            return await give(self._encoder.take(), spans)
        except Exception:
            log.exception("spans could not be sent", spans=spans)
            self._metrics.dropped(spans, Dropped.FAILED)
            return True

    async def _collect(self) -> int:
        """Fill a message and count its spans; others get their turn meanwhile."""
        spans = 0
        for _ in range(min(len(self._queue), BATCH)):
            traced = self._queue.popleft()
            try:
                self._encoder.add(traced)
                spans += traced.spans
            except Exception:
                log.exception("spans could not be made", spans=traced.spans)
                self._metrics.dropped(traced.spans, Dropped.FAILED)
            await asyncio.sleep(0)
        return spans

    async def _send(self, message: bytes, spans: int) -> bool:
        """Send a message until it is taken, refused, or was tried often enough (False)."""
        pause_s = self._first_pause_s
        for _ in range(TRIES):
            if await self._is_settled(message, spans):
                return True
            await asyncio.sleep(pause_s * (0.5 + self._chance()))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._metrics.dropped(spans, Dropped.UNREACHABLE)
        return False

    async def _is_settled(self, message: bytes, spans: int) -> bool:
        """Whether the receiver took the message or will never take it."""
        try:
            receipt = await self._receiver.post(message)
        except UpstreamError as error:
            self._note_reached(is_reached=False, why=error.code.value)
            return False
        if receipt.status in _TRY_AGAIN:
            self._note_reached(is_reached=False, why=f"status {receipt.status}")
            return False
        self._note_reached(is_reached=True)
        refused = spans
        if 200 <= receipt.status < 300:
            refused = min(self._encoder.refused_in(receipt.body), spans)
        if refused:
            log.warning("spans refused by their receiver", status=receipt.status, spans=refused)
            self._metrics.dropped(refused, Dropped.REFUSED)
        self._metrics.sent(spans - refused)
        return True

    async def _say_last_words(self) -> None:
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                while self._queue:
                    if not await self._pass_on(self._is_settled):
                        return
        except TimeoutError:
            log.info("spans left unsent", requests=len(self._queue))

    def _note_reached(self, *, is_reached: bool, why: str = "") -> None:
        """Say so when the receiver goes away or is back."""
        if is_reached is not self._is_reached:
            self._is_reached = is_reached
            if is_reached:
                log.info("receiver of spans is back")
            else:
                log.warning("receiver of spans fails", why=why)

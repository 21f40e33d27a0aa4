"""Comments in a stream that is silent, so that nothing on the way takes its caller for gone."""

import asyncio

from inference.gateway.disclosures import disclosed
from inference.gateway.exchange import Exchange
from inference.gateway.headers import stream_headers
from inference.queues.room import Silence
from inference.workers.pace import Pulse

# One line feed: after two, some clients see an empty event.
COMMENT = b":\n"

# Half of what the strictest proxies allow a silence; in an answer that has begun it costs nothing.
BEGUN_S = 15.0


class KeepAlive:
    """What a stream's caller is sent, and a comment whenever that was nothing for too long.

    The silence counts from when a worker was looked for, waiting for one with room included, from
    the start of each further attempt, and from whatever the caller was sent since. `keep_alive_ms`
    bounds it all along; None not before the answer has begun, and then it is `BEGUN_S`. Nothing
    here counts as the worker's: its time-outs and first token are untouched. Who sends something
    past this sets `since_s` to the loop's time.
    """

    __slots__ = ("_exchange", "_interval_s", "_loop", "since_s")

    def __init__(self, exchange: Exchange, keep_alive_ms: int | None) -> None:
        self._exchange = exchange
        self._interval_s = None if keep_alive_ms is None else keep_alive_ms / 1000
        self._loop = asyncio.get_running_loop()
        self.since_s = self._loop.time()

    @property
    def pulse(self) -> Pulse | None:
        """What a worker that was asked and hasn't answered is waited for with."""
        return None if self._interval_s is None else Pulse(self.left, self.comment)

    @property
    def silence(self) -> Silence | None:
        """The same for one that waits for its turn."""
        return None if self._interval_s is None else Silence(self.left, self.comment)

    @property
    def left_s(self) -> float | None:
        """How long nothing may be sent from now on; None is for ever."""
        return None if self._interval_s is None else self.left()

    def count_anew(self) -> None:
        """Give another worker the time that the one before it had: it may fail unseen as well."""
        self.since_s = self._loop.time()

    async def begin(self) -> None:
        """Begin the answer, unless a comment has; from then on no other worker is tried."""
        exchange = self._exchange
        if exchange.downstream.has_started:
            return
        if self._interval_s is None:
            self._interval_s = BEGUN_S
        await exchange.downstream.start(
            200,
            stream_headers(exchange.event_id, exchange.dialect) + disclosed(exchange),
        )

    async def write(self, data: bytes) -> None:
        """Send whole events."""
        if data:
            await self._exchange.downstream.write(data)
            self.since_s = self._loop.time()

    async def comment(self) -> None:
        """Send a comment; a caller that has yet to read what it was sent before gets none."""
        if self._exchange.downstream.has_unsent:
            self.since_s = self._loop.time()
            return
        await self.begin()
        await self.write(COMMENT)

    def left(self) -> float:
        """How long nothing may be sent from now on, in an answer that has begun."""
        interval_s = BEGUN_S if self._interval_s is None else self._interval_s
        return max(self.since_s + interval_s - self._loop.time(), 0.0)

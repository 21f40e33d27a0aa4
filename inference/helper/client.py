"""A gateway process's line to the helper of its host: a short wait, and nothing that fails.

What is asked waits 20 ms at most. After some late answers in a row nothing is asked any more:
pings find out whether the helper is in time again, so that no caller pays for that. A connection
that ended is made anew after a growing pause.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import structlog

from inference.helper.messages import (
    TEXT_CHARS_MAX,
    TOO_LONG,
    AskAgree,
    Asked,
    AskNearest,
    Forget,
    Frames,
    GarbledFrame,
    HelperGauge,
    Nearest,
    Ping,
    Pong,
    Question,
    Remember,
    SemanticEntry,
    SemanticQuery,
    TellAgree,
    TellNearest,
    Told,
    frame_of,
    read_told,
)

DEADLINE_S = 0.02
"""What the semantic tier may cost a request. The embedder takes 3 ms."""

AGREE_DEADLINE_S = 2.0
"""No caller waits for a comparison of answers, which are long."""

LATE_IN_ROW = 3
"""After so many late answers nothing is asked but pings."""

ASKED_MAX = 32
"""Questions of one process under way. At 3 ms each more would be late."""

WAITING_MAX = 256
"""Messages nobody waits for that are kept while the helper doesn't read; the oldest go first."""

GAUGE_PERIOD_S = 5.0
"""So often the helper is asked how it is."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
# A connection that lived so long was good for something: the next is tried at once.
_STEADY_S = 5.0
_CONNECT_S = 1.0
# A helper that stood still answers this as soon as it goes on; before, it needs no new connection.
_PING_S = 10.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class HelperCounts:
    """What became of what was asked since the process began; one question counts once."""

    answered: int = 0
    late: int = 0
    down: int = 0
    """Not asked, or not answered: there was no connection, or none that was in time."""
    busy: int = 0
    """Not asked: too much was under way, or the helper didn't read."""
    too_long: int = 0
    dropped: int = 0
    """Messages nobody waits for that found no room."""
    connected: int = 0
    garbled: int = 0


class HelperClient:
    """Asks the helper at a socket; usable from one event loop while `run` runs there.

    Nothing here raises, or waits longer than its deadline.
    """

    def __init__(
        self,
        socket: Path,
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.counts = HelperCounts()
        self.gauge: HelperGauge | None = None
        """How the helper was a few seconds ago; None while there is no word of it."""
        self._socket = socket
        self._deadline_s = deadline_s
        self._clock = clock
        self._chance = chance
        self._line: _Line | None = None
        self._is_in_time = False
        self._late_in_row = 0
        self._is_doubted = asyncio.Event()
        self._waiting: deque[bytes] = deque()

    @property
    def is_up(self) -> bool:
        """Whether a question would be asked now."""
        return self._line is not None and self._is_in_time

    async def nearest(self, query: SemanticQuery) -> Nearest | None:
        """The nearest message of the partition; None if there is none or the helper didn't say."""
        if len(query.text) > TEXT_CHARS_MAX:
            self.counts.too_long += 1
            return Nearest(None, 0.0, TOO_LONG)
        told = await self._ask(lambda id, due: AskNearest(id, due, query), self._deadline_s)
        return told.nearest if isinstance(told, TellNearest) else None

    async def agree(self, one: str, other: str) -> bool | None:
        """Whether two answers say the same; None if nobody can tell. Takes up to 2 s."""
        if max(len(one), len(other)) > 4 * TEXT_CHARS_MAX:
            self.counts.too_long += 1
            return None
        told = await self._ask(lambda id, due: AskAgree(id, due, one, other), AGREE_DEADLINE_S)
        return told.agreed if isinstance(told, TellAgree) else None

    def remember(self, entry: SemanticEntry) -> None:
        """Have a message found from now on; what can't be said soon is dropped."""
        if len(entry.text) <= TEXT_CHARS_MAX:
            self._tell(Remember(entry))

    def forget(self, key: bytes) -> None:
        """Have the message of this key found no more."""
        self._tell(Forget(key))

    async def run(self) -> None:
        """Keep the connection until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = self._clock()
            if (line := await self._connected()) is not None:
                await self._attend(line)
            if self._clock() - began >= _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s * (0.5 + self._chance()))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _connected(self) -> "_Line | None":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, line = await loop.create_unix_connection(
                    lambda: _Line(self._flush), str(self._socket)
                )
        except (OSError, TimeoutError):
            return None
        self.counts.connected += 1
        return line

    async def _attend(self, line: "_Line") -> None:
        """Use a connection until it ends."""
        self._line = line
        pinging = asyncio.create_task(self._ping_while_doubted(line))
        try:
            await line.ended.wait()
        finally:
            self._line, self._is_in_time, self.gauge = None, False, None
            pinging.cancel()
            line.close()
        if line.garbled:
            self.counts.garbled += 1
            log.warning("the helper can't be understood", error=line.garbled)

    async def _ping_while_doubted(self, line: "_Line") -> None:
        """Ask nothing until a ping comes back in time, and again whenever answers are late."""
        while not line.ended.is_set():
            self._is_doubted.clear()
            await self._until_in_time(line)
            if self._is_in_time:
                self._flush()
                await self._while_in_time(line)

    async def _while_in_time(self, line: "_Line") -> None:
        """Return when answers are late; ask how the helper is meanwhile."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GAUGE_PERIOD_S):
                    await self._is_doubted.wait()
                    return
            self._note_gauge(await line.ask(Ping, _PING_S))

    def _note_gauge(self, told: Told | None) -> None:
        self.gauge = told.gauge if isinstance(told, Pong) else None

    async def _until_in_time(self, line: "_Line") -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_in_time and not line.ended.is_set():
            asked_at = self._clock()
            told = await line.ask(Ping, _PING_S)
            self._note_gauge(told)
            if told is None:
                line.close()  # it has been silent for long: perhaps another one listens by now
                return
            if self._clock() - asked_at <= self._deadline_s:
                self._late_in_row, self._is_in_time = 0, True
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _ask(self, make: Callable[[int, float], Question], wait_s: float) -> Told | None:
        line = self._line
        if line is None or not self._is_in_time:
            self.counts.down += 1
            return None
        if line.is_full or line.asked >= ASKED_MAX:
            self.counts.busy += 1
            return None
        due = self._clock() + wait_s
        told = await line.ask(lambda id: make(id, due), wait_s)
        if told is not None:
            self.counts.answered += 1
            self._late_in_row = 0
        elif line.ended.is_set():
            self.counts.down += 1
        else:
            self.counts.late += 1
            self._note_late()
        return told

    def _note_late(self) -> None:
        self._late_in_row += 1
        if self._late_in_row >= LATE_IN_ROW and self._is_in_time:
            self._is_in_time = False
            self._is_doubted.set()

    def _tell(self, message: Asked) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._waiting.popleft()
            self.counts.dropped += 1
        self._waiting.append(frame_of(message))
        self._flush()

    def _flush(self) -> None:
        """Say what waits, as far as the helper reads and is in time."""
        line = self._line
        while self._waiting and line is not None and self._is_in_time and not line.is_full:
            line.write(self._waiting.popleft())


class _Line(asyncio.Protocol):
    """One connection and who waits for what."""

    def __init__(self, drained: Callable[[], None]) -> None:
        self.ended = asyncio.Event()
        self.is_full = False
        self.garbled: str | None = None
        self._drained = drained
        self._frames = Frames()
        self._asked: dict[int, asyncio.Future[Told | None]] = {}
        self._last_id = 0
        self._transport: asyncio.WriteTransport | None = None

    @property
    def asked(self) -> int:
        """How many questions are under way."""
        return len(self._asked)

    async def ask(self, make: Callable[[int], Question], wait_s: float) -> Told | None:
        """The answer to a question, or None if none came in this time or the connection ended."""
        loop = asyncio.get_running_loop()
        self._last_id += 1
        own = self._last_id
        answer: asyncio.Future[Told | None] = loop.create_future()
        self._asked[own] = answer
        timer = loop.call_later(wait_s, self._give_up, own)
        try:
            self.write(frame_of(make(own)))
            return await answer
        finally:
            timer.cancel()
            self._asked.pop(own, None)

    def write(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def close(self) -> None:
        """End it; who waits is told."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are none by their class
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                told = read_told(payload)
                if (answer := self._asked.get(told.id)) is not None and not answer.done():
                    answer.set_result(told)
        except GarbledFrame as error:
            self.garbled = str(error)
            self.close()

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._drained()

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(None)

    def _give_up(self, id: int) -> None:
        if (answer := self._asked.get(id)) is not None and not answer.done():
            answer.set_result(None)

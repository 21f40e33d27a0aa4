"""The helper's socket: gateway processes of this host ask, one mind answers, one thing at a time.

Questions come before what nobody waits for. A question that can't be answered in time any more is
let go of, so that those behind it still can.
"""

import asyncio
import contextlib
import fcntl
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

import structlog

from inference.contract.values import changed
from inference.helper.messages import (
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
    Remember,
    SemanticEntry,
    SemanticQuery,
    TellAgree,
    TellNearest,
    frame_of,
    read_asked,
)

LATER_MAX = 4096
"""Messages nobody waits for that wait for their turn; the oldest go first."""

_SOCKET_MODE = 0o600

log = structlog.get_logger(__name__)


class SocketTaken(OSError):
    """Another helper listens there."""


class Mind(Protocol):
    """What answers. Each call but `agree` runs to its end on the loop, a few milliseconds.

    `agree` takes longer and is called in a thread beside the others, once at a time.
    """

    def nearest(self, query: SemanticQuery) -> Nearest | None: ...

    def agree(self, one: str, other: str) -> bool | None: ...

    def remember(self, entry: SemanticEntry) -> None: ...

    def forget(self, key: bytes) -> None: ...

    def gauge(self) -> HelperGauge:
        """How it is; what the server counts itself is left at 0."""


@dataclass(slots=True)
class ServerCounts:
    """What became of what was asked since the helper began."""

    answered: int = 0
    late: int = 0
    dropped: int = 0
    garbled: int = 0
    failed: int = 0
    """What the mind failed at: a fault of ours, logged, that must cost no other question."""


class HelperServer:
    """Serves one socket while `run` runs."""

    def __init__(
        self, socket: Path, mind: Mind, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts = ServerCounts()
        self._socket = socket
        self._mind = mind
        self._clock = clock
        self._questions: deque[tuple[_Caller, AskNearest | Ping]] = deque()
        self._comparisons: deque[tuple[_Caller, AskAgree]] = deque()
        self._later: deque[Remember | Forget] = deque()
        self._callers: set[_Caller] = set()
        self._has_work = asyncio.Event()
        self._has_comparison = asyncio.Event()

    async def run(self) -> None:
        """Listen and answer until cancelled; raises SocketTaken if somebody else does."""
        with _owned(self._socket):
            loop = asyncio.get_running_loop()
            partial = self._socket.with_suffix(f".{os.getpid()}")
            partial.unlink(missing_ok=True)
            server = await loop.create_unix_server(self._called, str(partial))
            partial.chmod(_SOCKET_MODE)
            # in one step, so that there is no moment without a socket while one replaces another
            partial.replace(self._socket)
            comparing = asyncio.create_task(self._compare())
            try:
                await self._work()
            finally:
                comparing.cancel()
                server.close()
                for caller in tuple(self._callers):
                    caller.close()
                self._socket.unlink(missing_ok=True)

    def _called(self) -> "_Caller":
        caller = _Caller(self._take, self._callers.discard)
        self._callers.add(caller)
        return caller

    def _take(self, caller: "_Caller", payload: bytes) -> None:
        """Take one message; raises GarbledFrame."""
        try:
            message = read_asked(payload)
        except GarbledFrame:
            self.counts.garbled += 1
            raise
        self._queue(caller, message)
        self._has_work.set()

    def _queue(self, caller: "_Caller", message: Asked) -> None:
        match message:
            case AskAgree():
                self._comparisons.append((caller, message))
                self._has_comparison.set()
            case Remember() | Forget():
                if len(self._later) >= LATER_MAX:
                    self._later.popleft()
                    self.counts.dropped += 1
                self._later.append(message)
            case _:
                self._questions.append((caller, message))

    async def _work(self) -> None:
        while True:
            await self._has_work.wait()
            try:
                if self._questions:
                    self._answer(*self._questions.popleft())
                elif self._later:
                    self._heed(self._later.popleft())
                else:
                    self._has_work.clear()
            except Exception as error:  # noqa: BLE001 (one text that can't be dealt with fails alone)
                self._note_failure(error)
            # what came meanwhile is read before the next is begun
            await asyncio.sleep(0)

    def _answer(self, caller: "_Caller", question: AskNearest | Ping) -> None:
        match question:
            case AskNearest(due=due) if self._clock() >= due:
                self.counts.late += 1
                return
            case AskNearest(id=id, query=query):
                caller.write(frame_of(TellNearest(id, self._mind.nearest(query))))
            case Ping(id=id):
                caller.write(frame_of(Pong(id, self._gauge())))
        self.counts.answered += 1

    def _gauge(self) -> HelperGauge:
        counts = self.counts
        return changed(
            self._mind.gauge(),
            late_total=counts.late,
            dropped_total=counts.dropped,
            failed_total=counts.failed,
        )

    async def _compare(self) -> None:
        while True:
            await self._has_comparison.wait()
            if not self._comparisons:
                self._has_comparison.clear()
                continue
            caller, asked = self._comparisons.popleft()
            if self._clock() >= asked.due:
                self.counts.late += 1
                continue
            try:
                agreed = await asyncio.to_thread(self._mind.agree, asked.one, asked.other)
            except Exception as error:  # noqa: BLE001 (as above)
                self._note_failure(error)
                continue
            caller.write(frame_of(TellAgree(asked.id, agreed)))
            self.counts.answered += 1

    def _note_failure(self, error: Exception) -> None:
        self.counts.failed += 1
        *_, last = traceback.extract_tb(error.__traceback__)
        # not what it says: that may be what was asked
        kind, place = type(error).__name__, f"{last.filename}:{last.lineno}"
        log.error("a question could not be dealt with", error=kind, place=place)

    def _heed(self, message: Remember | Forget) -> None:
        match message:
            case Remember(entry=entry):
                self._mind.remember(entry)
            case Forget(key=key):
                self._mind.forget(key)


class _Caller(asyncio.Protocol):
    """One gateway process's connection."""

    def __init__(
        self, take: "Callable[[_Caller, bytes], None]", left: "Callable[[_Caller], None]"
    ) -> None:
        self._take = take
        self._left = left
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._is_full = False

    def write(self, frame: bytes) -> None:
        """Send an answer; a caller that doesn't read gets none, as it waits for none any more."""
        if self._transport is not None and not self._transport.is_closing() and not self._is_full:
            self._transport.write(frame)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._left(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are none by their class
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._take(self, payload)
        except GarbledFrame as error:
            log.warning("a caller can't be understood", error=str(error))
            self.close()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False


@contextlib.contextmanager
def _owned(socket: Path) -> Iterator[None]:
    """Hold the lock beside a socket; a process that dies lets go of it."""
    with socket.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SocketTaken(f"another helper listens at {socket}") from error
        yield

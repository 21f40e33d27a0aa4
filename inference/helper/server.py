"""The helper's socket: gateway processes of this host ask, one mind answers, one thing at a time.

Questions come before what nobody waits for. A question that can't be answered in time any more is
let go of, so that those behind it still can.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from inference.helper.messages import (
    AskAgree,
    Asked,
    AskNearest,
    Forget,
    Frames,
    GarbledFrame,
    Nearest,
    Ping,
    Pong,
    Question,
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
    """What answers. Each call runs to its end on the loop and takes a few milliseconds."""

    def nearest(self, query: SemanticQuery) -> Nearest | None: ...

    def agree(self, one: str, other: str) -> bool | None: ...

    def remember(self, entry: SemanticEntry) -> None: ...

    def forget(self, key: bytes) -> None: ...


@dataclass(slots=True)
class ServerCounts:
    """What became of what was asked since the helper began."""

    answered: int = 0
    late: int = 0
    dropped: int = 0
    garbled: int = 0


class HelperServer:
    """Serves one socket while `run` runs."""

    def __init__(
        self, socket: Path, mind: Mind, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts = ServerCounts()
        self._socket = socket
        self._mind = mind
        self._clock = clock
        self._questions: deque[tuple[_Caller, Question]] = deque()
        self._later: deque[Remember | Forget] = deque()
        self._has_work = asyncio.Event()

    async def run(self) -> None:
        """Listen and answer until cancelled; raises SocketTaken if somebody else does."""
        with _owned(self._socket):
            loop = asyncio.get_running_loop()
            partial = self._socket.with_suffix(f".{os.getpid()}")
            partial.unlink(missing_ok=True)
            server = await loop.create_unix_server(lambda: _Caller(self._take), str(partial))
            partial.chmod(_SOCKET_MODE)
            # in one step, so that there is no moment without a socket while one replaces another
            partial.replace(self._socket)
            try:
                await self._work()
            finally:
                server.close()
                self._socket.unlink(missing_ok=True)

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
        if not isinstance(message, Remember | Forget):
            self._questions.append((caller, message))
            return
        if len(self._later) >= LATER_MAX:
            self._later.popleft()
            self.counts.dropped += 1
        self._later.append(message)

    async def _work(self) -> None:
        while True:
            await self._has_work.wait()
            if self._questions:
                self._answer(*self._questions.popleft())
            elif self._later:
                self._heed(self._later.popleft())
            else:
                self._has_work.clear()
            # what came meanwhile is read before the next is begun
            await asyncio.sleep(0)

    def _answer(self, caller: "_Caller", question: Question) -> None:
        if not isinstance(question, Ping) and self._clock() >= question.due:
            self.counts.late += 1
            return
        match question:
            case AskNearest(id=id, query=query):
                caller.write(frame_of(TellNearest(id, self._mind.nearest(query))))
            case AskAgree(id=id, one=one, other=other):
                caller.write(frame_of(TellAgree(id, self._mind.agree(one, other))))
            case Ping(id=id):
                caller.write(frame_of(Pong(id)))
        self.counts.answered += 1

    def _heed(self, message: Remember | Forget) -> None:
        match message:
            case Remember(entry=entry):
                self._mind.remember(entry)
            case Forget(key=key):
                self._mind.forget(key)


class _Caller(asyncio.Protocol):
    """One gateway process's connection."""

    def __init__(self, take: "Callable[[_Caller, bytes], None]") -> None:
        self._take = take
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._is_full = False

    def write(self, frame: bytes) -> None:
        """Send an answer; a caller that doesn't read gets none, as it waits for none any more."""
        if self._transport is not None and not self._transport.is_closing() and not self._is_full:
            self._transport.write(frame)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._frames.feed(data):
                self._take(self, payload)
        except GarbledFrame as error:
            log.warning("a caller can't be understood", error=str(error))
            if self._transport is not None:
                self._transport.abort()

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

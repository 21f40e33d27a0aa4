"""A serving process as its parent knows it: started, listened to, asked, ended."""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from inference.gateway.control import (
    ASK,
    LINE_LIMIT_BYTES,
    Accepting,
    Report,
    Wanted,
    read_message,
)

# One that is busy answers in milliseconds; one that stands still is not waited for.
ANSWER_S = 1.0

# What a dead process said last is read to its end, unless somebody holds its socket.
_LAST_WORDS_S = 1.0

log = structlog.get_logger(__name__)


class ServingProcess:
    """One child. `superseded` is set by whoever wants it replaced.

    `last` is what it reported last, `wanted` what it last read of its gateway in the configuration.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, *, slot: int, superseded: asyncio.Event
    ) -> None:
        self._process = process
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_asked = False
        self.slot = slot
        self.superseded = superseded
        self.accepting = asyncio.Event()
        self.ended = asyncio.Event()
        self.is_leaving = False
        self.wanted: Wanted | None = None
        self.last: Report | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode

    @property
    def serves(self) -> bool:
        """Whether it accepts connections."""
        return self.accepting.is_set() and not self.is_leaving

    async def live(
        self,
        link: socket.socket,
        *,
        on_wanted: Callable[[Wanted], None],
        on_end: Callable[[], None],
    ) -> None:
        """Listen to it until it has ended. `on_end` is called before `ended` is set."""
        try:
            reader, self._writer = await asyncio.open_unix_connection(
                sock=link, limit=LINE_LIMIT_BYTES
            )
        except OSError as error:
            # one that can't be heard is of no use, and its end is all that is still to be had
            log.error("gateway process not reached", slot=self.slot, error=repr(error))
            link.close()
            self.kill()
            await self._process.wait()
        else:
            await self._listen_to_end(reader, self._writer, on_wanted)
        self._answer_all()
        on_end()
        self.ended.set()

    async def ask(self) -> None:
        """Have `last` be what it says now; one that is silent keeps what it said before."""
        if self._writer is None or self._writer.is_closing():
            return
        answered = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        if not self._is_asked:  # or questions would pile up at one that is silent
            self._is_asked = True
            self._writer.write(ASK)
        try:
            await asyncio.wait([answered], timeout=ANSWER_S)
        finally:
            if not answered.done():
                self._waiting.remove(answered)

    def terminate(self) -> None:
        """Have it end by itself once it has answered what it was asked."""
        self.is_leaving = True
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _listen_to_end(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_wanted: Callable[[Wanted], None],
    ) -> None:
        listening = asyncio.create_task(self._listen(reader, on_wanted))
        await self._process.wait()
        await asyncio.wait([listening], timeout=_LAST_WORDS_S)
        listening.cancel()
        writer.close()

    async def _listen(
        self, reader: asyncio.StreamReader, on_wanted: Callable[[Wanted], None]
    ) -> None:
        try:
            while line := await reader.readline():
                self._hear(line, on_wanted)
        except (ConnectionError, ValueError) as error:
            log.error("gateway process not understood", slot=self.slot, error=repr(error))

    def _hear(self, line: bytes, on_wanted: Callable[[Wanted], None]) -> None:
        """Take a line; raises ValueError (msgspec's DecodeError is one)."""
        match read_message(line):
            case Accepting():
                self.accepting.set()
            case Wanted() as wanted:
                self.wanted = wanted
                on_wanted(wanted)
            case Report() as report:
                self.last = report
                self._is_asked = False
                self._answer_all()

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


async def start_process(
    command: Sequence[str],
    *,
    slot: int,
    listener: socket.socket,
    superseded: asyncio.Event,
    generation: int | None,
) -> tuple[ServingProcess, socket.socket]:
    """Start one on this listener; returns it and our end of the socket pair. Raises OSError."""
    ours, theirs = socket.socketpair()
    arguments = ["--fd", str(listener.fileno()), "--control-fd", str(theirs.fileno())]
    arguments += ["--slot", str(slot)]
    if generation is not None:
        arguments += ["--generation", str(generation)]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(listener.fileno(), theirs.fileno()),
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ServingProcess(process, slot=slot, superseded=superseded), ours

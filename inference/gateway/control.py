"""What parent and children of a gateway say to each other, over a socket pair that ends with them.

A child tells, a line each, that it accepts, what it read of its gateway in the configuration, and
how it is when it is asked. The parent asks by a line of one word; all else it says by signals.
"""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from inference.contract.vitals import Vitals
from inference.observability.merging import Family

ASK = b"report\n"

# A report carries every series of a process: some 5 KB a route.
LINE_LIMIT_BYTES = 64 * 1024 * 1024

# A parent that stands still doesn't keep a child from ending.
_LAST_WORD_S = 1.0


class Accepting(msgspec.Struct, tag="accepting", frozen=True):
    """The child holds a configuration and accepts connections."""


class Wanted(msgspec.Struct, tag="wanted", frozen=True):
    """What the configuration that the child runs on wants of this gateway."""

    restart_generation: int
    is_drained: bool


class Report(msgspec.Struct, tag="report", frozen=True):
    """How the child is: its vitals but for the traffic, and its metrics."""

    vitals: Vitals
    families: tuple[Family, ...]


Message = Accepting | Wanted | Report

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Message)


def read_message(line: bytes) -> Message:
    """Read a child's line; raises msgspec.DecodeError."""
    message: Message = _decoder.decode(line)
    return message


class ParentLink:
    """The child's end. `report` says how the child is, on the loop, and may not fail."""

    def __init__(self, parent: socket.socket, *, report: Callable[[], Report]) -> None:
        self._socket = parent
        self._report = report
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_unix_connection(sock=self._socket)

    async def answer(self) -> None:
        """Answer the parent's questions; return when it is gone."""
        assert self._reader is not None
        try:
            while await self._reader.readline() == ASK:
                self.say(self._report())
        except ConnectionError:
            return

    def say(self, message: Message) -> None:
        """Tell the parent, if it is there."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(_encode(message) + b"\n")

    async def close(self) -> None:
        """Say how it ended, and nothing more."""
        if self._writer is None:
            return
        self.say(self._report())
        try:
            async with asyncio.timeout(_LAST_WORD_S):
                self._writer.close()
                await self._writer.wait_closed()
        except (ConnectionError, TimeoutError):
            return

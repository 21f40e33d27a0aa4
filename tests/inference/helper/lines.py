"""Helpers as tests want them, at real sockets: sound ones, silent ones, ones that talk nonsense."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from inference.helper.client import HelperClient
from inference.helper.messages import (
    AskNearest,
    Frames,
    HelperGauge,
    Nearest,
    Ping,
    Pong,
    SemanticEntry,
    SemanticQuery,
    TellNearest,
    frame_of,
    read_asked,
)
from inference.helper.server import HelperServer
from tests.inference.stores import PATIENCE_S, until


class Notebook:
    """A mind that has what it was told by heart, and takes as long as it is told to."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.entries: dict[bytes, SemanticEntry] = {}

    def nearest(self, query: SemanticQuery) -> Nearest | None:
        time.sleep(self.takes_s)
        self.asked.append(query.text)
        for entry in self.entries.values():
            if (entry.partition, entry.text) == (query.partition, query.text):
                return Nearest(entry.key, 1.0, None)
        return None

    def agree(self, one: str, other: str) -> bool | None:
        return one == other

    def remember(self, entry: SemanticEntry) -> None:
        self.entries[entry.key] = entry

    def forget(self, key: bytes) -> None:
        self.entries.pop(key, None)

    def gauge(self) -> HelperGauge:
        return HelperGauge(entries=len(self.entries))


def entry(text: str, *, key: bytes = b"key", partition: bytes = b"one") -> SemanticEntry:
    return SemanticEntry(partition, text, key, time.time() + 3600)


def query(text: str, *, partition: bytes = b"one") -> SemanticQuery:
    return SemanticQuery(partition, text, 0.9)


@contextlib.asynccontextmanager
async def serving(socket: Path, notebook: Notebook) -> AsyncIterator[HelperServer]:
    """A sound helper at a socket."""
    server = HelperServer(socket, notebook)
    running = asyncio.create_task(server.run())
    await until(socket.exists, "a helper that listens")
    try:
        yield server
    finally:
        running.cancel()
        await asyncio.wait({running})


class Dawdler:
    """A helper that answers all but what it is to be late with."""

    def __init__(self) -> None:
        self.is_late = False
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Frames()
        while data := await reader.read(65536):
            for payload in frames.feed(data):
                asked = read_asked(payload)
                self.asked += isinstance(asked, AskNearest)
                if isinstance(asked, AskNearest) and not self.is_late:
                    writer.write(frame_of(TellNearest(asked.id, None)))
                elif isinstance(asked, Ping):
                    await until(lambda: not self.is_late, "a helper in time")
                    writer.write(frame_of(Pong(asked.id, HelperGauge())))
        writer.close()


@contextlib.asynccontextmanager
async def dawdling(socket: Path) -> AsyncIterator[Dawdler]:
    """One that dawdles, at a socket."""
    dawdler = Dawdler()
    server = await asyncio.start_unix_server(dawdler.serve, socket)
    yield dawdler
    server.close()


@contextlib.asynccontextmanager
async def calling(socket: Path, *, deadline_s: float = PATIENCE_S) -> AsyncIterator[HelperClient]:
    """A gateway's line to it, patient unless told otherwise."""
    client = HelperClient(socket, deadline_s=deadline_s)
    running = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        running.cancel()
        await asyncio.wait({running})

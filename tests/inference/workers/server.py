"""A server on a raw socket that sends exactly what its script says."""

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from inference.workers.connections import Connections, Origin, Request
from inference.workers.pace import Timeouts

REQUEST = Request(b"/v1/chat/completions", b"x-a: b\r\n", b'{"a":1}')
SENT = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: 7\r\n"
    b'x-a: b\r\n\r\n{"a":1}'
)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
QUICK = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=2.0)

SO_ATTACH_FILTER = 26  # Linux; Python doesn't name it

Serve = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.requests: list[bytes] = []

    async def next_request(self) -> None:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.requests.append(head + await self.reader.readexactly(length))

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0.01)


class Server:
    """A server that plays one script a connection; the last script stays."""

    def __init__(self, scripts: tuple[Serve, ...]) -> None:
        self.scripts = list(scripts)
        self.peers: list[Peer] = []
        self.port = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            await script(peer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def serving(*scripts: Serve) -> AsyncIterator[tuple[Server, Origin]]:
    """A server of these scripts and the pool of connections to it."""
    server = Server(scripts)
    listener = await asyncio.start_server(server.accept, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    try:
        yield server, connections.origin_of(f"http://127.0.0.1:{server.port}/v1")
    finally:
        connections.close()
        listener.close()
        for peer in server.peers:
            peer.writer.transport.abort()
        await asyncio.sleep(0.01)


def drop_all(connection: socket.socket) -> None:
    """Let nothing reach this end of a connection any more, as if its host were gone."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    filtering = struct.pack("HP", 1, ctypes.addressof(program))
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filtering)


def answering(*parts: bytes, times: int = 1_000) -> Serve:
    """Answer each request by these writes."""

    async def serve(peer: Peer) -> None:
        for _ in range(times):
            await peer.next_request()
            await peer.send(*parts)

    return serve


async def asked(origin: Origin, timeouts: Timeouts = QUICK) -> tuple[int, bytes]:
    answer = await origin.post(REQUEST, timeouts)
    try:
        return answer.status, await answer.read_all(10_000_000)
    finally:
        answer.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(3):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)

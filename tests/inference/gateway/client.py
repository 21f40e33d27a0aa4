"""A client that shows what is on the wire: whether an answer was whole, and its exact bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.inference.gateway.rig import PATIENCE_S, TOKEN

BASE: Mapping[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "ping"}],
    "temperature": 0,
}
CHAT = "/v1/chat/completions"


@dataclass
class Reply:
    """What came back. `is_whole` says that the message had a proper end."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error

    @property
    def code(self) -> str:
        """The gateway's code of an error, wherever its path's callers look for it."""
        if self.json.get("type") == "error":
            return str(self.json["error"]["details"]["error_code"])
        return str(self.error["code"])

    @property
    def events(self) -> list[str]:
        """The data of each event, by a strict reading of the format."""
        return events_of(self.body)

    @property
    def chunks(self) -> list[Any]:
        """The events' documents, without the closing mark."""
        return [json.loads(data) for data in self.events if data != "[DONE]"]

    @property
    def text(self) -> str:
        """All content deltas put together."""
        return "".join(
            choice["delta"].get("content") or ""
            for chunk in self.chunks
            for choice in chunk.get("choices", ())
        )


def events_of(body: bytes) -> list[str]:
    """Parse an event stream the way a browser does: an event is what has data at a blank line."""
    found: list[str] = []
    data: list[str] = []
    for line in body.decode().split("\n")[:-1]:
        name, _, value = line.partition(":")
        if not line and data:
            found.append("\n".join(data))
            data = []
        elif name == "data":
            data.append(value.removeprefix(" "))
    return found


class Call:
    """One request on a connection of its own, read bit by bit."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def read_head(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        self.status = int(first.split(" ")[1])
        pairs = (line.split(":", 1) for line in lines)
        self.headers = {name.lower(): value.strip() for name, value in pairs}

    async def read_part(self) -> bytes:
        """One chunk of a chunked body; b"" is the end, and a broken body raises."""
        async with asyncio.timeout(PATIENCE_S):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        self.body += data
        return data

    async def read_until(self, text: bytes) -> None:
        """Read parts until this has come."""
        while text not in self.body:
            assert await self.read_part(), f"ended without {text!r}: {self.body!r}"

    async def read_rest(self) -> Reply:
        """Read to the end, whatever end that is."""
        is_whole = True
        try:
            if "content-length" in self.headers:
                left = int(self.headers["content-length"]) - len(self.body)
                async with asyncio.timeout(PATIENCE_S):
                    self.body += await self.reader.readexactly(left)
            else:
                while await self.read_part():
                    pass
        except (asyncio.IncompleteReadError, ConnectionError):
            is_whole = False
        return Reply(self.status, self.headers, self.body, is_whole)

    def leave(self) -> None:
        """Close at once, as a client that lost interest does."""
        self.writer.transport.abort()


def request_bytes(
    body: bytes | None,
    *,
    path: str = CHAT,
    method: str = "POST",
    token: str | None = TOKEN,
    headers: Mapping[str, str] | None = None,
    host: str = "gateway",
) -> bytes:
    """A request's bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}"]
    if token is not None:
        lines.append(f"authorization: Bearer {token}")
    if body is not None and "transfer-encoding" not in (headers or {}):
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


@asynccontextmanager
async def opened(port: int, request: bytes) -> AsyncIterator[Call]:
    """A connection on which these bytes were sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        yield Call(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def send(port: int, request: bytes) -> Reply:
    """Send these bytes and read the whole answer."""
    async with opened(port, request) as call:
        await call.read_head()
        return await call.read_rest()


async def post(port: int, path: str, **fields: object) -> Reply:
    """Ask for anything of the route `m`."""
    body = json.dumps({"model": "m", **fields}).encode()
    return await send(port, request_bytes(body, path=path))


async def chat(port: int, *, token: str | None = TOKEN, **fields: object) -> Reply:
    """Ask for a completion: `BASE` with these fields."""
    body = json.dumps({**BASE, **fields}).encode()
    return await send(port, request_bytes(body, token=token))


@asynccontextmanager
async def streaming(port: int, **fields: object) -> AsyncIterator[Call]:
    """A stream whose head has come."""
    body = json.dumps({**BASE, "stream": True, **fields}).encode()
    async with opened(port, request_bytes(body)) as call:
        await call.read_head()
        yield call

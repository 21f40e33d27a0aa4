"""The upstream process: `python -m tests.upstream.server --port 0` prints its port and serves.

With `--tells-load` it has an engine's `/metrics` with the calls that are open.

Paths under `/-/` steer it: PUT /-/script takes a list of behaviours, GET /-/report tells what
happened, POST /-/reset forgets it. Everything else is vLLM's API.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from tests.upstream.answers import deltas_of, usage_of
from tests.upstream.endpoints import event, other_answer, other_frames
from tests.upstream.script import Behaviour, Call, Report

MAX_KEPT_BODY = 1024 * 1024
MODELS_BODY = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}


@dataclass
class State:
    script: list[Behaviour] = field(default_factory=lambda: [Behaviour()])
    used: int = 0
    calls: list[Call] = field(default_factory=list)
    connections: int = 0
    open_calls: int = 0
    tells_load: bool = False

    def next_behaviour(self) -> Behaviour:
        """Take the behaviour of the coming call; the last one stays when all are used up."""
        current = self.script[0]
        self.used += 1
        if current.calls is not None and self.used >= current.calls and len(self.script) > 1:
            self.script.pop(0)
            self.used = 0
        return current


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_chat(self) -> bool:
        return self.path.endswith("/chat/completions")

    @property
    def document(self) -> dict[str, object]:
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class GoneError(ConnectionError):
    """The peer closed its side."""


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one request, or None when the peer is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.lower(): value.strip() for name, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return b"".join(parts)


class WatchedReader(asyncio.StreamReader):
    """A reader that says at once when the peer is gone, read or not."""

    def __init__(self) -> None:
        super().__init__(limit=64 * 1024 * 1024)
        self.gone = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.gone.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.gone.set()


class Connection:
    """One socket: requests one after another, until somebody closes."""

    def __init__(self, state: State, reader: "WatchedReader", writer: asyncio.StreamWriter) -> None:
        self.state, self.reader, self.writer = state, reader, writer
        self.is_chunked = False

    async def serve(self) -> None:
        self.state.connections += 1
        try:
            while (request := await read_request(self.reader)) is not None:
                if not await self.answer(request):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            self.writer.close()

    async def answer(self, request: Request) -> bool:
        """Answer one request; False when the connection is to end."""
        if request.path.startswith("/-/"):
            return await self.steer(request)
        if request.path == "/metrics" and self.state.tells_load:
            return await self.send_load()
        if request.method == "GET":
            known = request.path in ("/health", "/v1/models")
            body = MODELS_BODY if known else {"error": {"message": "not found"}}
            return await self.send_json(200 if known else 404, body)
        return await self.recorded(request)

    async def steer(self, request: Request) -> bool:
        if request.path == "/-/script":
            self.state.script = msgspec.json.decode(request.body, type=list[Behaviour])
            self.state.used = 0
        elif request.path == "/-/reset":
            self.state.calls.clear()
            self.state.connections = 0
            self.state.script = [Behaviour()]
            self.state.used = 0
        report = Report(self.state.calls, self.state.connections, self.state.open_calls)
        return await self.send_json(200, report)

    async def send_load(self) -> bool:
        lines = (
            f'vllm:num_requests_running{{engine="0"}} {self.state.open_calls}.0\n',
            'vllm:num_requests_waiting{engine="0"} 0.0\n',
        )
        body = "".join(lines).encode()
        await self.send_head(200, "text/plain; version=0.0.4", headers={}, length=len(body))
        await self.write(body)
        return True

    async def recorded(self, request: Request) -> bool:
        behaviour = self.state.next_behaviour()
        call = self.new_call(request)
        self.state.calls.append(call)
        self.state.open_calls += 1
        watch = asyncio.create_task(self.reader.gone.wait())
        act = asyncio.create_task(self.act(request, behaviour, call))
        try:
            await asyncio.wait({watch, act}, return_when=asyncio.FIRST_COMPLETED)
            if not act.done():
                raise GoneError
            return act.result()
        except ConnectionError:
            call.is_closed_early = True
            return False
        finally:
            self.state.open_calls -= 1
            call.finished_at = time.time()
            for task in (watch, act):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await task

    def new_call(self, request: Request) -> Call:
        kept = request.body if len(request.body) <= MAX_KEPT_BODY else None
        return Call(
            number=len(self.state.calls) + 1,
            method=request.method,
            path=request.path,
            headers=request.headers,
            body_bytes=len(request.body),
            body_sha256=hashlib.sha256(request.body).hexdigest(),
            body=None if kept is None else kept.decode("utf-8", "backslashreplace"),
            is_stream=request.document.get("stream") is True,
            received_at=time.time(),
        )

    async def act(self, request: Request, behaviour: Behaviour, call: Call) -> bool:
        await asyncio.sleep(behaviour.delay_ms / 1000)
        if behaviour.before_head != "answer":
            return await self.end_badly(behaviour.before_head)
        call.status = behaviour.status
        if behaviour.body is not None or behaviour.status != 200:
            await self.send_verbatim(behaviour)
        elif (
            document := other_answer(request.path, request.document, behaviour, call)
        ) is not None:
            await self.send_json(200, document, headers=behaviour.headers)
        elif call.is_stream:
            return await self.send_stream(request, behaviour, call)
        else:
            await self.send_completion(request, behaviour, call)
        call.is_finished = True
        return True

    async def send_verbatim(self, behaviour: Behaviour) -> None:
        error = {"error": {"message": "scripted failure", "type": "scripted", "code": "scripted"}}
        body = behaviour.body if behaviour.body is not None else json.dumps(error)
        await self.send_head(
            behaviour.status,
            behaviour.content_type or "application/json",
            headers=behaviour.headers,
            length=len(body.encode()),
        )
        await self.write(body.encode())

    async def send_completion(self, request: Request, behaviour: Behaviour, call: Call) -> None:
        words = deltas_of(behaviour)
        call.served_tokens = len(words)
        call.usage = usage_of(behaviour, len(words))
        message: dict[str, object] = {"role": "assistant", "content": behaviour.text}
        answer = {
            "id": f"chatcmpl-{call.number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.document.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": call.usage,
        }
        await self.send_json(200, answer, headers=behaviour.headers)

    async def send_stream(self, request: Request, behaviour: Behaviour, call: Call) -> bool:
        await self.send_head(200, "text/event-stream; charset=utf-8", headers=behaviour.headers)
        sent = 0
        async for frame in self.frames(request, behaviour, call):
            if behaviour.cut_after is not None and sent >= behaviour.cut_after:
                return await self.end_badly(behaviour.ending)
            await self.write_chunk(frame)
            sent += 1
            await asyncio.sleep(behaviour.gap_ms / 1000)
        if behaviour.ending != "clean":
            return await self.end_badly(behaviour.ending)
        await self.write(b"0\r\n\r\n")
        call.is_finished = True
        return True

    async def frames(
        self, request: Request, behaviour: Behaviour, call: Call
    ) -> AsyncIterator[bytes]:
        if behaviour.frames is not None:
            for frame in behaviour.frames:
                yield frame.encode()
            return
        if not request.is_chat:
            for other in other_frames(request.path, request.document, behaviour, call):
                yield other
            return
        options = request.document.get("stream_options")
        wishes = options if isinstance(options, dict) else {}
        is_usage_wanted = wishes.get("include_usage") is True
        is_continuous = behaviour.knows_continuous_usage and bool(
            wishes.get("continuous_usage_stats")
        )
        deltas = deltas_of(behaviour)
        yield event(chunk(request, call, {"role": "assistant", "content": ""}))
        for index, delta in enumerate(deltas, start=1):
            call.served_tokens = index
            call.usage = usage_of(behaviour, index)
            usage = call.usage if is_continuous and is_usage_wanted else None
            yield event(chunk(request, call, delta, usage=usage))
        yield event(chunk(request, call, {}, finish="stop"))
        call.usage = usage_of(behaviour, len(deltas))
        if is_usage_wanted and behaviour.usage is not None:
            closing = chunk(request, call, {}, usage=call.usage)
            yield event({**closing, "choices": []})
        yield b"data: [DONE]\n\n"

    async def end_badly(self, ending: str) -> bool:
        if ending == "hang":
            await asyncio.Event().wait()
        if ending == "reset":
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        return False

    async def send_json(
        self, status: int, document: object, headers: dict[str, str] | None = None
    ) -> bool:
        body = msgspec.json.encode(document)
        await self.send_head(status, "application/json", headers=headers or {}, length=len(body))
        await self.write(body)
        return True

    async def send_head(
        self, status: int, content_type: str, *, headers: dict[str, str], length: int | None = None
    ) -> None:
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        lines = [f"HTTP/1.1 {status} Scripted", f"content-type: {content_type}", framing]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.write("\r\n".join([*lines, "", ""]).encode())

    async def write_chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


def chunk(
    request: Request,
    call: Call,
    delta: dict[str, object],
    *,
    finish: str | None = None,
    usage: dict[str, object] | None = None,
) -> dict[str, object]:
    made: dict[str, object] = {
        "id": f"chatcmpl-{call.number}",
        "object": "chat.completion.chunk",
        "created": int(call.received_at),
        "model": request.document.get("model"),
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return made if usage is None else {**made, "usage": usage}


async def main(port: int, *, tells_load: bool) -> None:
    state = State(tells_load=tells_load)

    def connect() -> asyncio.StreamReaderProtocol:
        reader = WatchedReader()

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await Connection(state, reader, writer).serve()

        return asyncio.StreamReaderProtocol(reader, connected)

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scriptable OpenAI-compatible upstream")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tells-load", action="store_true")
    told = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(told.port, tells_load=told.tells_load))

"""The other side of the wire for spans: a receiver of OTLP over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.inference.gateway.rig import until


@dataclass
class Receiver:
    """What came, and how the next messages are answered: by `statuses` in turn, then by 200."""

    port: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    rejects: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def messages(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def spans(self) -> list[Span]:
        """Every span of every message, in the order of their beginning."""
        found = [
            span
            for message in self.messages
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *lines = head.rstrip().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines)
                body = await reader.readexactly(int(headers["content-length"]))
                status = self.statuses.pop(0) if self.statuses else 200
                if status == 200:
                    self.paths.append(first)
                    self.headers.append(headers)
                    self.bodies.append(body)
                partial = ExportTracePartialSuccess(rejected_spans=self.rejects)
                answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
                writer.write(
                    b"HTTP/1.1 %d Told\r\ncontent-length: %d\r\n\r\n%b"
                    % (status, len(answer), answer)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def running_receiver() -> AsyncIterator[Receiver]:
    """A receiver on a port of its own, gone at the end of the block."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for writer in receiver.open:
            writer.transport.abort()
        await until(lambda: not receiver.open, 5)
        await asyncio.sleep(0)


def attributes_of(span: Span) -> dict[str, Any]:
    """A span's attributes as plain values."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "")
        for pair in span.attributes
    }

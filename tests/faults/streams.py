"""Callers that stream, each on a socket and in a thread of its own."""

import json
import socket
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ANSWER_WITHIN_S = 120


@dataclass
class Stream:
    """One streaming request, read to its end in a thread that starts at once."""

    url: str
    key: str = field(repr=False)
    model: str = "chat"
    user: str | None = None
    received: bytes = field(default=b"", repr=False)
    wire: socket.socket = field(init=False, repr=False)
    thread: threading.Thread = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        address = urlsplit(self.url)
        messages = [{"role": "user", "content": "go"}]
        document = {"model": self.model, "stream": True, "messages": messages, "user": self.user}
        body = json.dumps(document).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address.netloc}\r\n"
            f"authorization: Bearer {self.key}\r\n"
            f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        where = (address.hostname, address.port)
        with socket.create_connection(where, timeout=ANSWER_WITHIN_S) as self.wire:
            self.wire.sendall(head + body)
            try:
                while data := self.wire.recv(65_536):
                    self.received += data
            except ConnectionResetError:
                return

    @property
    def status(self) -> int:
        return int(self.received.split(b" ", 2)[1])

    @property
    def has_begun(self) -> bool:
        return b"one" in self.received

    @property
    def is_whole(self) -> bool:
        return b"data: [DONE]" in self.received

    @property
    def has_error_frame(self) -> bool:
        return b'data: {"error"' in self.received

    @property
    def event_id(self) -> str:
        head = self.received.partition(b"\r\n\r\n")[0].decode().lower()
        line = next(line for line in head.split("\r\n") if line.startswith("x-request-id:"))
        return line.partition(":")[2].strip()

    def leave(self) -> None:
        """End it as a caller does who has gone."""
        self.wire.shutdown(socket.SHUT_RDWR)
        self.wait()

    def wait(self) -> None:
        """Return once it has ended, however."""
        self.thread.join(ANSWER_WITHIN_S)
        assert not self.thread.is_alive(), "a stream neither went on nor ended"

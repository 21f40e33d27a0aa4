"""Questions to workers: small calls with an end, in the background, and what they came to.

A probe never costs money: servers that are not ours are asked for their health or their list of
models, and only engines of our own are asked for one token to prove that they can.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

import httptools

from inference.decisions.egress import is_forbidden_endpoint, problem_with_address
from inference.decisions.lifecycle import Presence, Sighting

MAX_ANSWER_BYTES = 1024 * 1024
"""A list of models may be long; more than this is no answer to a probe."""

_CHUNK = 65_536


class ProbeFailed(Exception):
    """The call came to nothing; the message says how, without address or credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCall:
    """One call. `bearer` is sent as Authorization; a body makes it a POST of JSON."""

    url: str
    timeout_s: float
    bearer: str | None = field(default=None, repr=False)
    body: bytes | None = None
    accept: str = "application/json"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """A whole answer, of at most MAX_ANSWER_BYTES."""

    status: int
    body: bytes


class ProbeClient:
    """Makes calls one connection each: resolved, judged, then connected to that very address."""

    def __init__(
        self, *, own_ports: frozenset[int] = frozenset(), tls: ssl.SSLContext | None = None
    ) -> None:
        self._own_ports = own_ports
        self._tls = tls or ssl.create_default_context()

    async def ask(self, call: ProbeCall) -> int:
        """Make the call and return the answer's status, or raise ProbeFailed."""
        return (await self.fetch(call)).status

    async def fetch(self, call: ProbeCall) -> ProbeAnswer:
        """Make the call and return the whole answer, or raise ProbeFailed."""
        problem = problem_with_address(call.url, self._own_ports)
        if problem is not None:
            raise ProbeFailed(f"the address {problem}")
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self._exchange(call, urlsplit(call.url))
        except TimeoutError as error:
            raise ProbeFailed(f"no answer within {call.timeout_s:g} s") from error
        except ssl.SSLError as error:
            raise ProbeFailed("no trusted TLS connection") from error
        except httptools.HttpParserError as error:
            raise ProbeFailed("the answer is not HTTP") from error
        except OSError as error:
            raise ProbeFailed(_words_for(error)) from error

    async def _exchange(self, call: ProbeCall, url: SplitResult) -> ProbeAnswer:
        assert url.hostname is not None
        port = url.port or (443 if url.scheme == "https" else 80)
        tls = self._tls if url.scheme == "https" else None
        reader, writer = await asyncio.open_connection(
            await self._resolve(url.hostname, port),
            port,
            ssl=tls,
            server_hostname=url.hostname if tls else None,
        )
        try:
            writer.write(_request(call, url))
            await writer.drain()
            return await _read_answer(reader)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _resolve(self, host: str, port: int) -> str:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address in found:
            if not is_forbidden_endpoint(str(address[0]), port, self._own_ports):
                return str(address[0])
        raise ProbeFailed("the name resolves to an address that may not be called")


def _words_for(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the connection was closed"
    return f"no connection: {error.strerror or type(error).__name__}"


def _request(call: ProbeCall, url: SplitResult) -> bytes:
    method = "GET" if call.body is None else "POST"
    headers = {"host": url.netloc, "accept": call.accept, "connection": "close"}
    headers["user-agent"] = "headworks-pools"
    if call.bearer is not None:
        headers["authorization"] = f"Bearer {call.bearer}"
    if call.body is not None:
        headers |= {"content-type": "application/json", "content-length": str(len(call.body))}
    return _head(method, url.path or "/", headers) + (call.body or b"")


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


class _Answer:
    """Takes the parser's callbacks. `is_bounded` if the answer says where it ends."""

    def __init__(self) -> None:
        self.is_complete = False
        self.is_bounded = False
        self.body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.is_bounded |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _read_answer(reader: asyncio.StreamReader) -> ProbeAnswer:
    """Read the answer to its end: a server that dies half-way has not answered."""
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    received = 0
    while not answer.is_complete and (data := await reader.read(_CHUNK)):
        received += len(data)
        if received > MAX_ANSWER_BYTES:
            raise ProbeFailed("the answer is too long")
        parser.feed_data(data)
    if not received or (answer.is_bounded and not answer.is_complete):
        raise ProbeFailed("the connection was closed before the answer's end")
    return ProbeAnswer(int(parser.get_status_code()), bytes(answer.body))


Check = Callable[[], Awaitable[str | None]]
"""Asks once; None is well, anything else says in words what is wrong."""


class Prober:
    """Asks one worker again and again; what it learnt last is here for the taking.

    `proof` is asked once the check is well, and again until it is content; only then is the
    worker ready. Without one it counts as ready from the start. A worker that isn't ready or failed
    its last check is asked every `eager_s`, so that an outage and its end are both seen soon.
    """

    def __init__(self, check: Check, *, proof: Check | None, eager_s: float, calm_s: float) -> None:
        self.is_ready = proof is None
        self.failures = 0
        self.detail: str | None = None
        self._check = check
        self._proof = proof
        self._eager_s = eager_s
        self._calm_s = calm_s
        self._task = asyncio.create_task(self._probe_forever())

    def sighting(self, presence: Presence, detail: str | None = None) -> Sighting:
        """What is known of the worker now. Raises what broke the prober itself, if anything did."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
        return Sighting(presence, self.is_ready, self.failures, detail or self.detail)

    def stop(self) -> None:
        """Ask no more."""
        self._task.cancel()

    async def closed(self) -> None:
        """Stop and wait until the last call is off the wire."""
        self.stop()
        await asyncio.wait([self._task])

    async def _probe_forever(self) -> None:
        while True:
            await self._probe()
            is_calm = self.is_ready and not self.failures
            await asyncio.sleep(self._calm_s if is_calm else self._eager_s)

    async def _probe(self) -> None:
        trouble = await self._check()
        if trouble is None and not self.is_ready and self._proof is not None:
            self.detail = "answers; asked for a first token"
            trouble = await self._proof()
            self.is_ready = trouble is None
        self.failures = 0 if trouble is None else self.failures + 1
        self.detail = trouble

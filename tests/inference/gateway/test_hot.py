"""The hot routes' own way against ASGI: generated requests and faults, answered alike by both.

Two gateways over one scripted upstream are driven one after the other with the same bytes in the
same pieces, the same chance and a clock that stands; then all that each has left is compared: what
was on the wire, what the upstream saw, books, metrics and counts.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from inference.contract.events import Charge, End
from tests.inference.gateway.client import request_bytes
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

BODY_LIMIT = 4_096
POLL_S = 0.001
# as many turns of a loop as it takes from what the client sends to what it has read of an answer
IDLE_POLLS = 15
PATIENCE_S = 30.0
# of these the time decides, not who served
_TIMED = ("_bucket", "_sum", "_created")
_STANDING_CLOCK_S = 1_764_500_000.0

HOST = b"host: gateway\r\n"
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
STRANGE_PATHS = (
    "/v1/chat/completions?a=b",
    "/v1/chat%2Fcompletions",
    "/v1/chat/completions/",
    "http://gateway/v1/chat/completions",
    "/v1/models",
    "/health",
    "/nowhere",
    "*",
)


@dataclass(frozen=True)
class Script:
    """One connection's life: what is sent in which pieces, and what the upstream does of it.

    Requests are sent all at once if `is_ahead`, else each after the answer to the one before. The
    client leaves when nothing more is to come, or `leaves`: while sending, waiting or reading.
    """

    requests: tuple[bytes, ...]
    cuts: tuple[int, ...]
    is_ahead: bool
    behaviours: tuple[Behaviour, ...]
    leaves: str = ""


@dataclass
class Seen:
    """All that one gateway left of a script."""

    wire: bytes
    is_closed: bool
    calls: list[tuple[object, ...]]
    openings: list[object]
    ends: list[object]
    metrics: dict[str, float]
    inflight: int


class Pair:
    """The two gateways and the loop they run in."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.hot, self.plain = self._runner.run(self._start())

    async def _start(self) -> tuple[Gateway, Gateway]:
        # neither breakers nor retries, which go by the time
        pool = pool_record("a", self._upstream.base_url, breaker_min_requests=1_000_000)
        snapshot = configuration(pool, routes=(route_record("a", max_attempts=1),))
        both = [
            await self._stack.enter_async_context(
                running_gateway(
                    snapshot,
                    body_limit_bytes=BODY_LIMIT,
                    clock=lambda: _STANDING_CLOCK_S,
                    is_hot=is_hot,
                )
            )
            for is_hot in (True, False)
        ]
        return both[0], both[1]

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def drive(self, gateway: Gateway, script: Script) -> Seen:
        return self._runner.run(self._drive(gateway, script))

    async def _drive(self, gateway: Gateway, script: Script) -> Seen:
        self._upstream.reset()
        self._upstream.play(*script.behaviours)
        random.seed(0)
        gateway.books.openings.clear()
        gateway.books.ends.clear()
        gateway.connections.close()  # a kept connection would be tried once more
        gateway.fleet.ready("pool_a")[0].breaker.take_back()  # it would come back by the time
        wire, is_closed = await Client(gateway, self._upstream).run(script)
        await gateway.wait_for(lambda: not gateway.tasks)
        return Seen(
            re.sub(rb'"created":\d+', b'"created":0', joined(wire)),
            is_closed,
            [
                (call.method, call.path, call.headers | {"host": ""}, call.body)
                for call in self._upstream.calls
            ],
            list(gateway.books.openings),
            [timeless(end) for end in gateway.books.ends],
            counts(gateway),
            gateway.inflight,
        )


class Client:
    """Sends a script's pieces and reads until nothing more comes."""

    def __init__(self, gateway: Gateway, upstream: Upstream) -> None:
        self._gateway = gateway
        self._upstream = upstream
        self._read = b""
        self._is_closed = False
        self._polls = 0

    async def run(self, script: Script) -> tuple[bytes, bool]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._gateway.port)
        reading = asyncio.create_task(self._follow(reader))
        # one that is no HTTP breaks the connection off: the time would decide what gets out before
        behind = script.requests[1:]
        broken = [one for one in behind if b"\r\nZZ\r\n" in one or one.count(HOST) != 1]
        is_ahead = script.is_ahead and not broken
        groups = [b"".join(script.requests)] if is_ahead else script.requests
        for group in groups:
            await self._send(writer, group, script.cuts)
            self._polls = 0
            deadline = time.monotonic() + PATIENCE_S
            while not self._is_time_to_leave(script):
                assert time.monotonic() < deadline
                await asyncio.sleep(POLL_S)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        writer.transport.abort()
        return self._read, self._is_closed

    async def _send(self, writer: asyncio.StreamWriter, data: bytes, cuts: tuple[int, ...]) -> None:
        spots = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for start, end in pairwise(spots):
            writer.write(data[start:end])
            for _ in range(3):
                await asyncio.sleep(0)

    def _is_time_to_leave(self, script: Script) -> bool:
        """Whether nothing more is to come, or the moment that the client leaves at is there."""
        match script.leaves:
            case "waiting":
                return bool(self._upstream.report().open_calls)
            case "reading":
                return b" two" in self._read
        self._polls = 0 if self._gateway.tasks and not script.leaves else self._polls + 1
        return self._polls > IDLE_POLLS or self._is_closed

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                self._read += data
        self._is_closed = True


def joined(wire: bytes) -> bytes:
    """The bytes of answers with chunked bodies put together: where they are cut is the worker's."""
    begun, mark, rest = wire.partition(b"transfer-encoding: chunked\r\n\r\n")
    if not mark:
        return wire
    body = b""
    while (found := re.match(rb"([0-9a-f]+)\r\n", rest)) is not None:
        size = int(found[1], 16)
        part = rest[found.end() : found.end() + size + 2]
        if len(part) < size + 2:
            break
        body += part[:-2]
        rest = rest[found.end() + size + 2 :]
        if not size:
            return begun + mark + body + b"<end>" + joined(rest)
    return begun + mark + body + rest


def timeless(end: End) -> object:
    """An end without what only the time decides."""
    charges = tuple(_timeless_charge(charge) for charge in end.charges)
    first_ms = None if end.first_token_ms is None else 0.0
    return replace(end, total_ms=0.0, first_token_ms=first_ms, charges=charges)


def _timeless_charge(charge: Charge) -> Charge:
    first_ms = None if charge.first_token_ms is None else 0.0
    return replace(charge, duration_ms=0.0, first_token_ms=first_ms)


def counts(gateway: Gateway) -> dict[str, float]:
    """Every series that the time has no part in."""
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for family in gateway.registry.collect()
        for sample in family.samples
        if not sample.name.endswith(_TIMED)
    }


def documents() -> st.SearchStrategy[bytes]:
    """Bodies: sound, strange, broken and too long."""
    common: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "ping"}]}
    inputs = {"input": "ping", "prompt": ["one", "two"]}
    sound = st.fixed_dictionaries(
        {},
        optional={
            "stream": st.booleans(),
            "stream_options": st.just({"include_usage": True}),
            "max_tokens": st.sampled_from([1, 5, "7", 1.5, None]),
            "n": st.just(2),
            "x": st.text(max_size=50),
        },
    ).map(lambda more: json.dumps({**common, **inputs, **more}).encode())
    broken = st.sampled_from(
        [b"", b"{", b"[]", b'{"model":7}', b'{"model":"other","messages":[]}', b"\xff\xfe"]
    )
    long = st.integers(BODY_LIMIT - 20, BODY_LIMIT + 2_000).map(
        lambda size: json.dumps({**common, "x": "a" * size}).encode()
    )
    return st.one_of(sound, sound, sound, broken, long)


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """A body in chunks, now and then with an extension, a trailer, or a size that is none."""
    size = draw(st.integers(1, max(len(body), 1)))
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    extension = draw(st.sampled_from([b"", b"", b";a=b"]))
    lines = [b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts]
    if draw(st.integers(0, 9)) == 0:
        return b"".join(lines) + b"ZZ\r\n"
    trailer = draw(st.sampled_from([b"", b"", b"authorization: Bearer x\r\n"]))
    return b"".join(lines) + b"0\r\n" + trailer + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request's bytes."""
    is_plain = draw(st.booleans())
    path = draw(st.sampled_from(PATHS if is_plain else PATHS + STRANGE_PATHS))
    method = "POST" if is_plain else draw(st.sampled_from(["POST", "GET", "PUT", "HEAD"]))
    token = draw(st.sampled_from([TOKEN, TOKEN, TOKEN, DEBUG_TOKEN, None, "hw_wrong.key"]))
    headers = {
        name: value
        for name, value in (
            ("X-Request-ID", "mine"),
            ("x-headworks-debug", "1"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("content-encoding", "gzip"),
            ("expect", "100-continue"),
            ("connection", "close"),
        )
        if draw(st.integers(0, 5)) == 0
    }
    body = draw(documents())
    if draw(st.booleans()):
        headers["transfer-encoding"] = "chunked"
        body = draw(chunked(body))
    made = request_bytes(body, path=path, method=method, token=token, headers=headers)
    if draw(st.integers(0, 9)) == 0:
        made = made.replace(HOST, draw(st.sampled_from([b"", HOST * 2])), 1)
    return made.replace(b"HTTP/1.1", draw(st.sampled_from([b"HTTP/1.1"] * 5 + [b"HTTP/1.0"])), 1)


@st.composite
def repeated(draw: st.DrawFn) -> tuple[bytes, ...]:
    """Requests with one head but for the length of their bodies."""
    path = draw(st.sampled_from(PATHS))
    token = draw(st.sampled_from([TOKEN, TOKEN, DEBUG_TOKEN, "hw_wrong.key"]))
    headers = draw(
        st.sampled_from(
            [
                {},
                {"X-Request-ID": "mine"},
                {"x-headworks-debug": "1", "x-session-id": "s"},
                {"content-encoding": "gzip"},
                {"x-a": "b" * 3_000},
                {"expect": "100-continue"},
            ]
        )
    )
    bodies = draw(st.lists(documents(), min_size=2, max_size=4))
    return tuple(request_bytes(one, path=path, token=token, headers=headers) for one in bodies)


BEHAVIOURS = st.one_of(
    st.just(Behaviour()),
    st.just(Behaviour(delay_ms=5, gap_ms=2)),
    st.builds(Behaviour, status=st.sampled_from([400, 401, 404, 429, 500, 503])),
    st.builds(Behaviour, before_head=st.sampled_from(["close", "reset"])),
    st.builds(
        Behaviour,
        cut_after=st.integers(0, 6),
        ending=st.sampled_from(["clean", "close", "reset"]),
    ),
    st.builds(Behaviour, body=st.sampled_from(["", "{}", "no JSON", '{"error":{"message":"no"}}'])),
    st.builds(
        Behaviour, frames=st.just(['data: {"error":{"message":"broken"}}\n\n']), deltas=st.none()
    ),
    st.builds(Behaviour, usage=st.sampled_from([None, {"prompt_tokens": 3}])),
)

SCRIPTS = st.builds(
    Script,
    requests=st.one_of(st.lists(requests(), min_size=1, max_size=3).map(tuple), repeated()),
    cuts=st.lists(st.integers(0, 10_000), max_size=4).map(tuple),
    is_ahead=st.booleans(),
    behaviours=st.lists(BEHAVIOURS, min_size=1, max_size=1).map(tuple),
)


@st.composite
def departures(draw: st.DrawFn) -> Script:
    """A client that leaves: in the middle of what it sends, before an answer, or within one."""
    leaves = draw(st.sampled_from(["sending", "waiting", "reading"]))
    event(leaves)
    is_stream = leaves == "reading" or draw(st.booleans())
    whole = request_bytes(
        json.dumps({"model": "m", "messages": [], "stream": is_stream}).encode(),
        headers=draw(st.sampled_from([{}, {"expect": "100-continue"}])),
    )
    sent = draw(st.integers(1, len(whole) - 1)) if leaves == "sending" else len(whole)
    hang = Behaviour(cut_after=3, ending="hang")
    if leaves == "waiting":
        hang = Behaviour(before_head="hang")
    return Script((whole[:sent],), (), is_ahead=True, behaviours=(hang,), leaves=leaves)


@pytest.fixture(scope="module")
def pair(_upstreams: tuple[Upstream, Upstream]) -> Iterator[Pair]:
    both = Pair(_upstreams[0])
    yield both
    both.close()


def check(pair: Pair, script: Script) -> None:
    hot, plain = pair.drive(pair.hot, script), pair.drive(pair.plain, script)
    for name in Seen.__annotations__:
        left, right = getattr(hot, name), getattr(plain, name)
        assert left == right, f"{name}: {left!r} but by ASGI {right!r}, of {script}"
    for line in plain.wire.split(b"\r\n"):
        if line.startswith(b"HTTP/1.1 "):
            event(line[9:12].decode())


LENIENT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=130, deadline=None, suppress_health_check=LENIENT)
@given(script=SCRIPTS)
def test_both_ways_answer_alike(pair: Pair, script: Script) -> None:
    check(pair, script)


@settings(max_examples=10, deadline=None, suppress_health_check=LENIENT)
@given(script=departures())
def test_both_ways_end_alike_when_the_client_leaves(pair: Pair, script: Script) -> None:
    check(pair, script)

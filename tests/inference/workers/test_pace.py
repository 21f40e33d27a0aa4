"""Time-outs and back-pressure of answers, and what becomes of those nobody reads on."""

import asyncio
from collections.abc import Awaitable

import pytest

from inference.errors import UpstreamTimedOut
from inference.workers.answers import READ_AHEAD_BYTES
from inference.workers.pace import Pulse, Timeouts
from tests.inference.workers.server import (
    CHUNKED,
    OK,
    REQUEST,
    Peer,
    answering,
    asked,
    serving,
    until,
)

NEVER_S = 1_000_000.0


class LoopClock:
    """The running loop's time, which a test may put forward by more than any machine is slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, self._ahead_s = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self._ahead_s)

    async def move(self, seconds: float) -> None:
        """Put it forward, and let what is due by then happen."""
        self._ahead_s += seconds
        await turns(10)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    return LoopClock(monkeypatch)


async def turns(count: int) -> None:
    """Let the loop turn so often."""
    for _ in range(count):
        await asyncio.sleep(0)


def limits(**changes: float) -> Timeouts:
    values = {"connect_s": NEVER_S, "first_byte_s": NEVER_S, "idle_s": NEVER_S, **changes}
    return Timeouts(**values)


async def times_out_after(seconds: float, clock: LoopClock, call: Awaitable[object]) -> None:
    """Assert that a call is given up when so much time has passed, and no sooner."""
    running = asyncio.ensure_future(call)
    await clock.move(seconds - 100)
    assert not running.done()
    await clock.move(200)
    await until(running.done)
    with pytest.raises(UpstreamTimedOut):
        await running


async def test_the_first_byte_is_waited_for_so_long(clock: LoopClock) -> None:
    async def hang(peer: Peer) -> None:
        await peer.next_request()
        await peer.reader.read()

    async with serving(hang) as (server, origin):
        call = asyncio.create_task(asked(origin, limits(first_byte_s=1_000)))
        await until(lambda: bool(server.peers and server.peers[0].requests))
        await times_out_after(1_000, clock, call)


async def test_a_head_alone_is_not_the_first_byte(clock: LoopClock) -> None:
    async def head_only(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK[:-2])
        await peer.reader.read()

    async with serving(head_only) as (_, origin):
        answer = await origin.post(REQUEST, limits(first_byte_s=1_000, idle_s=10))
        await times_out_after(1_000, clock, answer.read())
        answer.close()


async def test_the_next_byte_is_waited_for_from_the_last_one(clock: LoopClock) -> None:
    parts: asyncio.Queue[bytes] = asyncio.Queue()

    async def slow(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED)
        while True:
            await peer.send(await parts.get())

    async with serving(slow) as (_, origin):
        answer = await origin.post(REQUEST, limits(first_byte_s=5_000, idle_s=1_000))
        for letter in (b"a", b"b", b"c"):
            await clock.move(900)
            parts.put_nowait(b"1\r\n%b\r\n" % letter)
            assert await answer.read() == letter
        await times_out_after(1_000, clock, answer.read())
        answer.close()


async def test_time_stands_still_while_nobody_reads(clock: LoopClock) -> None:
    flood = CHUNKED + b"%x\r\n" % (8 * READ_AHEAD_BYTES) + b"x" * (8 * READ_AHEAD_BYTES)
    async with serving(answering(flood, b"\r\n0\r\n\r\n")) as (_, origin):
        answer = await origin.post(REQUEST, limits(idle_s=1_000))
        await until(lambda: answer.is_paused)
        await clock.move(10_000)
        assert len(await answer.read_all(10**9)) == 8 * READ_AHEAD_BYTES
        answer.close()
        assert origin.idle_count == 1


async def test_reading_stops_while_nobody_takes_what_came() -> None:
    sent = 0

    async def flood(peer: Peer) -> None:
        nonlocal sent
        await peer.next_request()
        await peer.send(CHUNKED)
        for _ in range(2_000):
            peer.writer.write(b"%x\r\n" % 65_536 + b"x" * 65_536 + b"\r\n")
            await peer.writer.drain()
            sent += 65_536

    async with serving(flood) as (_, origin):
        answer = await origin.post(REQUEST, limits())
        await until(lambda: answer.is_paused)
        settled = 0
        while settled != sent:
            settled = sent
            await turns(200)
        assert sent < 2_000 * 65_536 / 4
        answer.close()


async def test_a_wait_for_more_can_be_short() -> None:
    is_over = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await is_over.wait()
        await peer.send(b"0\r\n\r\n")
        await peer.reader.read()

    async with serving(serve) as (_, origin):
        answer = await origin.post(REQUEST, limits())
        assert await answer.read(NEVER_S) == b"a"
        assert await answer.read(0.0) is None
        is_over.set()
        assert await answer.read(NEVER_S) == b""
        assert await answer.read(0.0) == b""
        answer.close()


async def test_a_wait_is_as_long_as_it_says_whatever_the_one_before_was(clock: LoopClock) -> None:
    async with serving(answering(CHUNKED + b"1\r\na\r\n", b"1\r\nb\r\n")) as (_, origin):
        answer = await origin.post(REQUEST, limits())
        assert await answer.read(1_000) == b"a"
        assert await answer.read(1_000) == b"b"
        for wait_s in (5_000, 2_000, 3_000):
            waiting = asyncio.ensure_future(answer.read(wait_s))
            await turns(2)
            await clock.move(wait_s - 100)
            assert not waiting.done()
            await clock.move(200)
            await until(waiting.done)
            assert waiting.result() is None
        answer.close()


async def test_a_pulse_beats_until_there_is_a_head(clock: LoopClock) -> None:
    beats: list[float] = []
    is_over = asyncio.Event()

    async def beat() -> None:
        beats.append(asyncio.get_running_loop().time())

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await is_over.wait()
        await peer.send(CHUNKED + b"1\r\na\r\n")
        await peer.reader.read()

    async with serving(serve) as (server, origin):
        asking = asyncio.ensure_future(origin.post(REQUEST, limits(), Pulse(lambda: 1_000.0, beat)))
        await until(lambda: bool(server.peers and server.peers[0].requests))
        for count in (1, 2, 3):
            await clock.move(1_100)
            assert len(beats) == count
        is_over.set()
        answer = await asking
        await clock.move(5_000)
        assert len(beats) == 3
        answer.close()


async def test_a_part_without_content_does_not_end_a_wait() -> None:
    parts = (CHUNKED + b"1\r\na\r\n", b"1", b"\r\n", b"b\r\n", b"0\r\n\r\n")
    async with serving(answering(*parts)) as (_, origin):
        answer = await origin.post(REQUEST, limits())
        assert await answer.read() == b"a"
        assert await answer.read(NEVER_S) == b"b"
        answer.close()


async def test_the_end_of_a_read_answer_may_come_a_little_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.workers.connections.LINGER_S", NEVER_S)
    async with serving(answering(CHUNKED + b"1\r\na\r\n", b"0\r\n\r\n")) as (server, origin):
        answer = await origin.post(REQUEST, limits())
        assert await answer.read() == b"a"
        answer.close(is_read=True)
        await until(lambda: origin.idle_count == 1)
        assert await asked(origin, limits()) == (200, b"a")
        assert len(server.peers) == 1


@pytest.mark.parametrize("late", [b"1\r\nb\r\n0\r\n\r\n", b"", b"zz"])
async def test_an_answer_that_goes_on_is_cut_off(
    late: bytes, clock: LoopClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.workers.connections.LINGER_S", 1_000)

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + b"1\r\na\r\n", late)
        await peer.reader.read()
        peer.requests.append(b"gone")

    async with serving(serve) as (server, origin):
        answer = await origin.post(REQUEST, limits())
        assert await answer.read() == b"a"
        answer.close(is_read=True)
        if not late:
            await clock.move(1_100)
        await until(lambda: server.peers[0].requests[-1] == b"gone")
        assert origin.idle_count == 0

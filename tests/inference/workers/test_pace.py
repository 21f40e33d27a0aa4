"""Time-outs and back-pressure of answers, and what becomes of those nobody reads on."""

import asyncio
from collections.abc import Awaitable

import pytest

from inference.errors import (
    UpstreamTimedOut,
)
from inference.workers.answers import READ_AHEAD_BYTES, Timeouts
from tests.inference.workers.server import (
    CHUNKED,
    OK,
    QUICK,
    REQUEST,
    Peer,
    answering,
    asked,
    serving,
    until,
)


def limits(**changes: float) -> Timeouts:
    values = {"connect_s": 2.0, "first_byte_s": 2.0, "idle_s": 2.0, **changes}
    return Timeouts(**values)


async def timed(call: Awaitable[object]) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(UpstreamTimedOut):
        await call
    return loop.time() - started


async def hang(peer: Peer) -> None:
    await peer.reader.read()


async def test_the_first_byte_is_waited_for_so_long() -> None:
    async with serving(hang) as (_, origin):
        assert 0.1 <= await timed(asked(origin, limits(first_byte_s=0.1))) < 1.5


async def test_a_head_alone_is_not_the_first_byte() -> None:
    async def head_only(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK[:-2])
        await peer.reader.read()

    async with serving(head_only) as (_, origin):
        took_s = await timed(asked(origin, limits(first_byte_s=0.2, idle_s=0.05)))
        assert 0.2 <= took_s < 1.5


async def test_the_next_byte_is_waited_for_from_the_last_one() -> None:
    async def slow(peer: Peer) -> None:
        await peer.next_request()
        for part in (CHUNKED, b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n"):
            await peer.send(part)
            await asyncio.sleep(0.1)
        await peer.reader.read()

    async with serving(slow) as (_, origin):
        took_s = await timed(asked(origin, limits(first_byte_s=5.0, idle_s=0.25)))
        assert 0.45 <= took_s < 3.0


async def test_time_stands_still_while_nobody_reads() -> None:
    flood = CHUNKED + b"%x\r\n" % (8 * READ_AHEAD_BYTES) + b"x" * (8 * READ_AHEAD_BYTES)
    async with serving(answering(flood, b"\r\n0\r\n\r\n")) as (_, origin):
        answer = await origin.post(REQUEST, limits(idle_s=0.1))
        await until(lambda: answer.is_paused)
        await asyncio.sleep(0.3)
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
        answer = await origin.post(REQUEST, QUICK)
        await until(lambda: answer.is_paused)
        settled = 0
        while settled != sent:
            settled = sent
            await asyncio.sleep(0.1)
        assert sent < 2_000 * 65_536 / 4
        answer.close()


async def test_a_wait_for_more_can_be_short() -> None:
    async with serving(answering(CHUNKED + b"1\r\na\r\n", b"0\r\n\r\n")) as (_, origin):
        answer = await origin.post(REQUEST, QUICK)
        assert await answer.read(0.5) == b"a"
        assert await answer.read(0.0) is None
        assert await answer.read(1.0) == b""
        assert await answer.read(0.0) == b""
        answer.close()


async def test_a_part_without_content_does_not_end_a_wait() -> None:
    parts = (CHUNKED + b"1\r\na\r\n", b"1", b"\r\n", b"b\r\n", b"0\r\n\r\n")
    async with serving(answering(*parts)) as (_, origin):
        answer = await origin.post(REQUEST, QUICK)
        assert await answer.read() == b"a"
        assert await answer.read(1.0) == b"b"
        answer.close()


async def test_the_end_of_a_read_answer_may_come_a_little_later() -> None:
    async with serving(answering(CHUNKED + b"1\r\na\r\n", b"0\r\n\r\n")) as (server, origin):
        answer = await origin.post(REQUEST, QUICK)
        assert await answer.read() == b"a"
        answer.close(is_read=True)
        await until(lambda: origin.idle_count == 1)
        assert await asked(origin) == (200, b"a")
        assert len(server.peers) == 1


@pytest.mark.parametrize("late", [b"1\r\nb\r\n0\r\n\r\n", b"", b"zz"])
async def test_an_answer_that_goes_on_is_cut_off(
    late: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.workers.connections.LINGER_S", 0.1)

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + b"1\r\na\r\n", late)
        await peer.reader.read()
        peer.requests.append(b"gone")

    async with serving(serve) as (server, origin):
        answer = await origin.post(REQUEST, QUICK)
        assert await answer.read() == b"a"
        answer.close(is_read=True)
        await until(lambda: server.peers[0].requests[-1] == b"gone")
        assert origin.idle_count == 0

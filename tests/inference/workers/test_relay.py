"""Answers that are taken as they come: for how long, and what becomes of what the taker raises."""

import asyncio

import pytest

from inference.errors import InternalError, UpstreamBadAnswer, UpstreamClosed
from inference.workers.answers import READ_AHEAD_BYTES
from tests.inference.workers.server import (
    CHUNKED,
    QUICK,
    REQUEST,
    Peer,
    answering,
    serving,
    until,
)

NEVER_S = 1_000_000.0
END = b"0\r\n\r\n"


def part(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def never() -> float:
    return NEVER_S


class Taker:
    """Takes everything, up to and with what it was told to stop at."""

    def __init__(self, *stops: bytes) -> None:
        self.taken: list[bytes] = []
        self._stops = (*stops, b"")

    def take(self, data: bytes) -> bool:
        self.taken.append(data)
        return data not in self._stops


async def test_all_is_taken_as_it_comes_and_nothing_is_the_end() -> None:
    async with serving(answering(CHUNKED + part(b"a"), part(b"b") + part(b"c"), END)) as (
        _,
        origin,
    ):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        assert await answer.relay(taker.take, never)
        assert taker.taken == [b"a", b"bc", b""]
        answer.close()
        assert origin.idle_count == 1


async def test_an_end_without_a_length_is_an_end() -> None:
    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\na", b"b")
        peer.writer.close()

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        assert await answer.relay(taker.take, never)
        assert taker.taken == [b"a", b"b", b""]
        answer.close()


async def test_who_wants_no_more_gets_the_rest_when_he_asks_again() -> None:
    parts = asyncio.Queue[bytes]()

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + part(b"a"))
        while True:
            await peer.send(await parts.get())

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker(b"b")
        relaying = asyncio.create_task(answer.relay(taker.take, never))
        parts.put_nowait(part(b"b"))
        assert await relaying
        parts.put_nowait(part(b"c"))
        await until(lambda: answer.has_unread)
        assert taker.taken == [b"a", b"b"]
        parts.put_nowait(part(b"d") + END)
        await until(lambda: answer.is_complete)
        assert await answer.relay(taker.take, never)
        assert taker.taken == [b"a", b"b", b"cd", b""]
        answer.close()


async def test_reading_stops_while_nobody_takes_what_came() -> None:
    flood = part(b"a") + part(b"x" * 8 * READ_AHEAD_BYTES) + END
    async with serving(answering(CHUNKED, flood)) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        assert await answer.relay(lambda data: False, never)
        await until(lambda: answer.is_paused)
        assert await answer.relay(taker.take, never)
        assert not answer.is_paused
        assert sum(map(len, taker.taken)) > 7 * READ_AHEAD_BYTES
        answer.close()


async def test_time_runs_out_only_if_it_does_so_when_asked_again() -> None:
    asked: list[float] = []

    def left_s() -> float:
        asked.append(asyncio.get_running_loop().time())
        return 0.02 if len(asked) < 4 else 0.0

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + part(b"a"))
        await peer.reader.read()

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        assert not await answer.relay(taker.take, left_s)
        assert asked[3] - asked[0] >= 0.05
        assert taker.taken == [b"a"]
        answer.close()


@pytest.mark.parametrize(
    ("raised", "told"), [(UpstreamBadAnswer, UpstreamBadAnswer), (KeyError, InternalError)]
)
@pytest.mark.parametrize("at", [b"a", b"b"])
async def test_what_the_taker_raises_comes_to_who_waits(
    raised: type[Exception], told: type[Exception], at: bytes
) -> None:
    def take(data: bytes) -> bool:
        if data == at:
            raise raised
        return True

    async with serving(answering(CHUNKED + part(b"a"), part(b"b"))) as (_, origin):
        answer = await origin.post(REQUEST, QUICK)
        with pytest.raises(told):
            await answer.relay(take, never)
        answer.close()
        assert origin.idle_count == 0


@pytest.mark.parametrize(("last", "error"), [(b"", UpstreamClosed), (b"zz\r\n", UpstreamBadAnswer)])
async def test_what_came_before_a_failure_is_taken(last: bytes, error: type[Exception]) -> None:
    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + part(b"a"), last)

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        with pytest.raises(error):
            await answer.relay(taker.take, never)
        assert taker.taken == [b"a"]
        answer.close()


@pytest.mark.parametrize("is_enough", [False, True])
async def test_what_came_with_what_is_no_http_is_taken_before_that_is_told(is_enough: bool) -> None:
    more = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + part(b"a"))
        await more.wait()
        await peer.send(part(b"b") + b"zz\r\n")

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker(*[b"b"] * is_enough)
        relaying = asyncio.create_task(answer.relay(taker.take, never))
        await until(lambda: taker.taken == [b"a"])
        more.set()
        if is_enough:
            assert await relaying
            relaying = asyncio.create_task(answer.relay(taker.take, never))
        with pytest.raises(UpstreamBadAnswer):
            await relaying
        assert taker.taken == [b"a", b"b"]
        answer.close()
        assert origin.idle_count == 0


async def test_a_wait_that_is_cancelled_takes_no_more() -> None:
    more = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(CHUNKED + part(b"a"))
        await more.wait()
        await peer.send(part(b"b"))
        await peer.reader.read()

    async with serving(serve) as (_, origin):
        answer, taker = await origin.post(REQUEST, QUICK), Taker()
        relaying = asyncio.create_task(answer.relay(taker.take, never))
        await until(lambda: taker.taken == [b"a"])
        relaying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await relaying
        more.set()
        await until(lambda: answer.has_unread)
        assert taker.taken == [b"a"]
        answer.close()

"""Connections to workers that misbehave, are deaf, or whose host is gone."""

import asyncio
from dataclasses import replace

import pytest

from inference.errors import UpstreamBadAnswer, UpstreamTimedOut, UpstreamUnreachable
from inference.workers.connections import Connection, Origin, Request
from tests.inference.workers.server import (
    CHUNKED,
    OK,
    QUICK,
    Peer,
    answering,
    asked,
    drop_all,
    serving,
    until,
)


@pytest.mark.parametrize("begun", [b"5;x=", b"0\r\nx: "], ids=["extension", "trailer"])
async def test_what_surrounds_an_answers_chunks_is_bounded(begun: bytes) -> None:
    parts = (CHUNKED + begun, *(b"x" * 16_000 for _ in range(5)))
    async with serving(answering(*parts, times=1)) as (_, origin):
        with pytest.raises(UpstreamBadAnswer):
            await asked(origin)
        assert origin.idle_count == 0


async def test_a_fault_of_ours_in_the_parser_is_logged_and_its_connection_not_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("inference.workers.answers.Answer.on_body", broken)
    async with serving(answering(OK)) as (_, origin):
        with pytest.raises(UpstreamBadAnswer):
            await asked(origin)
        assert origin.idle_count == 0
    assert "answer parser failed" in caplog.text


LARGE = Request(b"/v1/x", b"", b"x" * 32 * 1024 * 1024)


async def test_a_connection_on_which_a_request_was_not_taken_whole_is_not_kept() -> None:
    async def refuse(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(OK)
        await asyncio.sleep(0)
        await until(lambda: peer.writer.is_closing() or peer.reader.at_eof())

    async with serving(refuse) as (_, origin):
        answer = await origin.post(LARGE, QUICK)
        assert (answer.status, await answer.read_all(10)) == (200, b"{}")
        answer.close()
        assert origin.idle_count == 0


async def test_a_worker_that_takes_no_request_is_given_up_like_one_that_gives_no_answer() -> None:
    is_over = asyncio.Event()

    async def deaf(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await is_over.wait()

    async with serving(deaf) as (_, origin):
        with pytest.raises(UpstreamTimedOut):
            await origin.post(LARGE, replace(QUICK, first_byte_s=0.3))
        is_over.set()


@pytest.mark.slow
async def test_a_kept_connection_to_a_host_that_is_gone_is_found_out_and_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.workers.connections.DEAD_PEER_S", 1)

    is_gone = asyncio.Event()

    async def vanish(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK)
        drop_all(peer.writer.get_extra_info("socket"))
        is_gone.set()
        await peer.reader.read()

    async with serving(vanish, answering(OK)) as (server, origin):
        assert await asked(origin) == (200, b"{}")
        await is_gone.wait()
        patient = replace(QUICK, first_byte_s=30.0)
        async with asyncio.timeout(10):
            assert await asked(origin, patient) == (200, b"{}")
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_a_connection_lost_before_anything_was_sent_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lost(origin: Origin, *_: object) -> Connection:
        return Connection(origin)

    monkeypatch.setattr(Origin, "_open", lost)
    async with serving(answering(OK)) as (_, origin):
        with pytest.raises(UpstreamUnreachable) as caught:
            await asked(origin)
        assert not caught.value.was_sent

"""Connections to workers: reuse, replacement, addresses, and every way an answer can end."""

import asyncio
from contextlib import suppress

import pytest

from inference.errors import (
    UpstreamBadAnswer,
    UpstreamClosed,
    UpstreamError,
    UpstreamForbidden,
    UpstreamUnreachable,
)
from inference.workers.answers import MAX_HEAD_BYTES
from inference.workers.connections import (
    Connections,
    path_of,
    root_path_of,
)
from tests.inference.workers.server import (
    CHUNKED,
    OK,
    QUICK,
    REQUEST,
    SENT,
    Peer,
    answering,
    asked,
    serving,
    until,
)
from tests.installation import free_port


async def test_a_request_goes_out_whole_and_its_answer_comes_back() -> None:
    async with serving(answering(OK)) as (server, origin):
        assert await asked(origin) == (200, b"{}")
        assert server.peers[0].requests == [SENT % server.port]


async def test_a_free_connection_is_used_again_and_the_newest_first() -> None:
    async with serving(answering(OK)) as (server, origin):
        first = await origin.post(REQUEST, QUICK)
        second = await origin.post(REQUEST, QUICK)
        for answer in (first, second):
            await answer.read_all(10)
            answer.close()
        assert origin.idle_count == 2
        for _ in range(3):
            await asked(origin)
        assert [len(peer.requests) for peer in server.peers] == [1, 4]


async def test_an_interim_head_is_not_taken_for_the_answers() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\ncontent-length: 0\r\n\r\n"

    async def serve(peer: Peer) -> None:
        for parts in ((early + OK,), (early, OK)):
            await peer.next_request()
            await peer.send(*parts)

    async with serving(serve) as (_, origin):
        for _ in range(2):
            assert await asked(origin) == (200, b"{}")


async def test_closing_twice_gives_a_connection_back_once() -> None:
    async with serving(answering(OK)) as (server, origin):
        answer = await origin.post(REQUEST, QUICK)
        await answer.read_all(10)
        answer.close()
        other = await origin.post(REQUEST, QUICK)
        answer.close()
        assert await other.read_all(10) == b"{}"
        other.close()
        assert origin.idle_count == 1
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ((b"HTTP/1.1 100 Continue\r\n\r\n", OK), b"{}"),
        ((b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,), b"{}"),
        ((CHUNKED + b"1\r\n{\r\n", b"1\r\n}\r\n", b"0\r\n\r\n"), b"{}"),
        ((CHUNKED + b"2;ext=1\r\n{}\r\n0\r\ntrailer: x\r\n\r\n",), b"{}"),
        (tuple(OK[index : index + 1] for index in range(len(OK))), b"{}"),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",), b""),
    ],
)
@pytest.mark.slow
async def test_an_answer_is_read_however_it_is_cut(parts: tuple[bytes, ...], body: bytes) -> None:
    async with serving(answering(*parts)) as (_, origin):
        assert await asked(origin) == (200, body)
        assert await asked(origin) == (200, body)
        assert origin.idle_count == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}",
    ],
)
async def test_a_body_of_no_stated_length_ends_with_its_connection(answer: bytes) -> None:
    async with serving(answering(answer, times=1)) as (_, origin):
        assert await asked(origin) == (200, b"{}")
        assert origin.idle_count == 0


async def test_a_connection_that_is_to_be_closed_is_not_kept() -> None:
    closing = OK.replace(b"content-type", b"connection: close\r\ncontent-type")
    async with serving(answering(closing)) as (server, origin):
        await asked(origin)
        assert origin.idle_count == 0
        await asked(origin)
        assert len(server.peers) == 2


@pytest.mark.parametrize("surplus", [OK, b"garbage", b"\r\n\r\n{"])
async def test_a_connection_on_which_too_much_came_is_not_kept(surplus: bytes) -> None:
    async with serving(answering(OK + surplus)) as (_, origin):
        assert await asked(origin) == (200, b"{}")
        await until(lambda: origin.idle_count == 0)


async def test_a_free_connection_on_which_something_comes_is_dropped() -> None:
    async def serve(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK, b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await peer.reader.read()

    async with serving(serve) as (_, origin):
        await asked(origin)
        await until(lambda: origin.idle_count == 0)


async def test_a_stale_connection_is_replaced_if_no_byte_came_back() -> None:
    async def closing_after_one(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK)
        await peer.next_request()

    async with serving(closing_after_one, answering(OK)) as (server, origin):
        assert await asked(origin) == (200, b"{}")
        assert await asked(origin) == (200, b"{}")
        assert [len(peer.requests) for peer in server.peers] == [2, 1]


async def test_a_connection_that_broke_in_its_answer_is_not_replaced() -> None:
    async def breaking_at_the_second(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(OK)
        await peer.next_request()
        await peer.send(OK[:10])

    async with serving(breaking_at_the_second) as (server, origin):
        await asked(origin)
        with pytest.raises(UpstreamClosed):
            await asked(origin)
        assert len(server.peers) == 1


async def test_a_connection_closed_while_free_is_forgotten() -> None:
    async with serving(answering(OK, times=1)) as (server, origin):
        await asked(origin)
        await until(lambda: origin.idle_count == 0)
        await asked(origin)
        assert len(server.peers) == 2


ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (MAX_HEAD_BYTES // 6 + 10)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ((), UpstreamClosed),
        ((OK[:20],), UpstreamClosed),
        ((OK[:-1],), UpstreamClosed),
        ((CHUNKED + b"5\r\nab",), UpstreamClosed),
        ((CHUNKED + b"2\r\n{}\r\n",), UpstreamClosed),
        ((b"SSH-2.0-OpenSSH\r\n",), UpstreamBadAnswer),
        ((CHUNKED + b"zz\r\n",), UpstreamBadAnswer),
        ((b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",), None),
        ((ENDLESS_HEAD[:40_000], ENDLESS_HEAD[40_000:]), UpstreamBadAnswer),
    ],
)
async def test_an_answer_that_is_not_whole_or_no_answer_is_an_error(
    parts: tuple[bytes, ...], error: type[UpstreamError] | None
) -> None:
    async with serving(answering(*parts, times=1)) as (_, origin):
        with pytest.raises(error or UpstreamError):
            await asked(origin)
        assert origin.idle_count == 0


async def test_what_came_before_a_break_is_still_read() -> None:
    async with serving(answering(CHUNKED + b"2\r\nab\r\n", times=1)) as (_, origin):
        answer = await origin.post(REQUEST, QUICK)
        assert await answer.read() == b"ab"
        with pytest.raises(UpstreamClosed):
            await answer.read()
        answer.close()


async def test_a_body_over_the_limit_is_refused() -> None:
    big = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1_000_000
    async with serving(answering(big)) as (_, origin):
        answer = await origin.post(REQUEST, QUICK)
        with pytest.raises(UpstreamBadAnswer):
            await answer.read_all(999_999)
        answer.close()


@pytest.mark.parametrize("has_head", [False, True])
async def test_a_cancelled_request_is_cut_off_at_once(has_head: bool) -> None:
    gone = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.next_request()
        with suppress(ConnectionError):  # a reset if it was cut off before this was sent
            if has_head:
                await peer.send(CHUNKED)
            await peer.reader.read()
        gone.set()

    async with serving(serve) as (server, origin):
        task = asyncio.create_task(asked(origin))
        await until(lambda: bool(server.peers and server.peers[0].requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(1):
            await gone.wait()


async def test_nobody_there_is_unreachable_and_nothing_was_sent() -> None:
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    for host in ("127.0.0.1", "does-not-exist.invalid"):
        origin = connections.origin_of(f"http://{host}:{free_port()}/v1")
        with pytest.raises(UpstreamUnreachable) as caught:
            await asked(origin)
        assert not caught.value.was_sent
        assert host not in str(caught.value)


async def test_names_are_resolved_and_every_address_is_judged() -> None:
    judged: list[tuple[str, int]] = []

    def is_forbidden(ip: str, port: int) -> bool:
        judged.append((ip, port))
        return not ip.startswith("127.")

    async with serving(answering(OK)) as (server, _):
        connections = Connections(is_forbidden=is_forbidden)
        origin = connections.origin_of(f"http://localhost:{server.port}/v1")
        assert await asked(origin) == (200, b"{}")
        assert ("127.0.0.1", server.port) in judged
        assert (
            server.peers[0]
            .requests[0]
            .startswith(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost:%d\r\n" % server.port
            )
        )
        connections.close()


async def test_a_host_at_forbidden_addresses_only_is_not_called() -> None:
    async with serving(answering(OK)) as (server, _):
        connections = Connections(is_forbidden=lambda _ip, _port: True)
        origin = connections.origin_of(f"http://localhost:{server.port}/v1")
        with pytest.raises(UpstreamForbidden) as caught:
            await asked(origin)
        assert not caught.value.was_sent
        assert server.peers == []


async def test_what_is_kept_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.workers.connections.MAX_IDLE_S", 0.1)
    async with serving(answering(OK)) as (_, origin):
        await asked(origin)
        assert origin.idle_count == 1
        await until(lambda: origin.idle_count == 0)


@pytest.mark.slow
async def test_a_server_without_a_known_certificate_is_not_spoken_to() -> None:
    async with serving(answering(OK)) as (server, _):
        connections = Connections(is_forbidden=lambda _ip, _port: False)
        with pytest.raises(UpstreamUnreachable):
            await asked(connections.origin_of(f"https://127.0.0.1:{server.port}/v1"))
        connections.close()


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("http://a:1/v1", b"/v1/chat/completions"),
        ("http://a:1/v1/", b"/v1/chat/completions"),
        ("http://a:1", b"/chat/completions"),
        ("http://a:1/x/y?api-version=2", b"/x/y/chat/completions?api-version=2"),
    ],
)
def test_the_endpoint_goes_below_the_base_url(base_url: str, path: bytes) -> None:
    assert path_of(base_url, "/chat/completions") == path


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("http://a:1/v1", b"/tokenize"),
        ("http://a:1/v1/", b"/tokenize"),
        ("http://a:1", b"/tokenize"),
        ("http://a:1/x/v1?api-version=2", b"/x/tokenize?api-version=2"),
        ("http://a:1/x", b"/x/tokenize"),
        ("http://a:1/xv1", b"/xv1/tokenize"),
    ],
)
def test_what_is_not_openais_goes_beside_v1(base_url: str, path: bytes) -> None:
    assert root_path_of(base_url, "/tokenize") == path


async def test_one_origin_is_shared_by_all_paths_on_it() -> None:
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    first = connections.origin_of("http://HOST/v1")
    assert first is connections.origin_of("http://host:80/v2")
    assert first.host_header == b"host"
    assert connections.origin_of("http://[::1]:8000/v1").host_header == b"[::1]:8000"
    assert connections.origin_of("https://host/v1") is not first

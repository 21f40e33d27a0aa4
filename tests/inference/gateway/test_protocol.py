"""The server's side of a connection: what is relied on of uvicorn, and what is added to it."""

import asyncio
import json
from contextlib import suppress

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from inference.contract.kinds import Outcome
from inference.gateway.protocol import MAX_HEAD_BYTES
from tests.inference.gateway.client import BASE, CHAT, opened, request_bytes, send
from tests.inference.gateway.rig import (
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

BODY = json.dumps(BASE).encode()
HEALTH = request_bytes(None, path="/health", method="GET", token=None)


async def test_what_is_no_http_is_refused_in_shape(gateway: Gateway) -> None:
    reply = await send(gateway.port, b"NONSENSE\r\n\r\n")
    assert (reply.status, reply.error["code"]) == (400, "invalid_request")
    assert reply.headers["connection"] == "close"


@pytest.mark.parametrize("is_one_header", [True, False])
async def test_a_head_without_end_is_refused(gateway: Gateway, is_one_header: bool) -> None:
    line = b"x" * 1_000 if is_one_header else b"x-a: " + b"x" * 1_000 + b"\r\n"
    async with opened(gateway.port, HEALTH[:-2] + b"x-a: ") as call:
        for _ in range(MAX_HEAD_BYTES // 1_000 + 2):
            call.writer.write(line)
        await call.read_head()
        reply = await call.read_rest()
    assert (reply.status, reply.error["message"]) == (431, "The request's headers are too large.")


async def test_a_large_body_in_the_same_read_is_no_large_head(gateway: Gateway) -> None:
    body = json.dumps({**BASE, "x": "a" * 200_000}).encode()
    assert (await send(gateway.port, request_bytes(body))).status == 200


async def test_a_head_that_never_ends_is_given_up(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.protocol.HEAD_TIMEOUT_S", 0.1)
    async with opened(gateway.port, b"GET /health HTT") as call, asyncio.timeout(2):
        assert await call.reader.read() == b""
    async with opened(gateway.port, HEALTH) as call:
        await call.read_head()
        await call.read_rest()
        call.writer.write(b"GET /hea")
        async with asyncio.timeout(2):
            assert await call.reader.read() == b""


async def test_requests_sent_ahead_are_answered_one_after_another(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=100, calls=1), Behaviour(text="second"))
    async with opened(gateway.port, request_bytes(BODY) * 2 + HEALTH) as call:
        texts = []
        for _ in range(2):
            call.body = b""
            await call.read_head()
            reply = await call.read_rest()
            texts.append(reply.json["choices"][0]["message"]["content"])
            assert gateway.inflight <= 1
        call.body = b""
        await call.read_head()
        assert (await call.read_rest()).json == {"status": "ok"}
    assert texts == ["one two three four five", "second"]


async def test_a_client_that_leaves_with_requests_sent_ahead_ends_the_one_that_runs(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=50))
    body = json.dumps({**BASE, "stream": True}).encode()
    async with opened(gateway.port, request_bytes(body) * 2) as call:
        await call.read_head()
        await call.read_part()
        call.leave()
        await gateway.wait_ended()
    await gateway.wait_for(lambda: upstream.report().open_calls == 0)
    assert len(upstream.calls) == 1


async def test_nonsense_after_a_request_breaks_its_answer_off(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(gap_ms=50))
    body = json.dumps({**BASE, "stream": True}).encode()
    async with opened(gateway.port, request_bytes(body)) as call:
        await call.read_head()
        await call.read_part()
        call.writer.write(b"NONSENSE\r\n\r\n")
        reply = await call.read_rest()
    assert not reply.is_whole
    assert b"HTTP/1.1" not in reply.body
    await gateway.wait_ended()


CHUNKED_HEAD = request_bytes(None, headers={"transfer-encoding": "chunked"})


@pytest.mark.parametrize("sent", [b"", b'5\r\n{"mod\r\n'])
async def test_a_body_that_is_no_http_is_refused_in_shape(
    gateway: Gateway, upstream: Upstream, sent: bytes
) -> None:
    async with opened(gateway.port, CHUNKED_HEAD + sent) as call:
        call.writer.write(b"ZZ\r\nnonsense\r\n" + HEALTH)
        await call.read_head()
        reply = await call.read_rest()
        assert await call.reader.read() == b""
    assert (reply.status, reply.error["code"]) == (400, "invalid_request")
    assert reply.error["message"] == "The request body is not valid HTTP."
    assert reply.headers["connection"] == "close"
    assert (gateway.books.end.http_status, gateway.books.end.outcome) == (400, Outcome.REFUSED)
    assert upstream.calls == []


async def test_a_broken_body_sent_ahead_gets_no_answer_that_is_not_its_own(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=10_000))
    ahead = request_bytes(BODY) + CHUNKED_HEAD + b"ZZ\r\n"
    async with opened(gateway.port, ahead) as call:
        assert await call.reader.read() == b""
    await gateway.wait_ended()


async def test_an_upgrade_is_not_taken_up_and_the_request_is_answered(gateway: Gateway) -> None:
    headers = {"connection": "upgrade, http2-settings", "upgrade": "h2c", "http2-settings": "AA"}
    assert (await send(gateway.port, request_bytes(BODY, headers=headers))).status == 200


async def test_a_head_request_for_health_has_no_body(gateway: Gateway) -> None:
    async with opened(gateway.port, HEALTH.replace(b"GET", b"HEAD")) as call:
        await call.read_head()
        assert call.status == 200
        call.writer.write(HEALTH)
        await call.read_head()
        assert (await call.read_rest()).json == {"status": "ok"}


async def test_a_body_nobody_read_does_not_keep_the_connection_for_ever(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.protocol.HEAD_TIMEOUT_S", 0.2)
    monkeypatch.setattr("inference.gateway.protocol.MAX_UNREAD_BYTES", 100_000)
    request = request_bytes(None, token=None, path=CHAT, headers={"content-length": "1000000"})
    async with opened(gateway.port, request) as call:
        await call.read_head()
        assert (await call.read_rest()).status == 401
        async with asyncio.timeout(2):
            assert await call.reader.read() == b""
    async with opened(gateway.port, request) as call:
        await call.read_head()
        assert (await call.read_rest()).status == 401
        call.writer.write(b"x" * 200_000)
        with suppress(ConnectionError):
            async with asyncio.timeout(2):
                assert await call.reader.read() == b""


async def test_a_fault_of_ours_in_the_parser_is_no_fault_of_the_callers(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(HttpToolsProtocol, "on_headers_complete", broken)
    reply = await send(gateway.port, HEALTH)
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert "request parser failed" in caplog.text


@pytest.mark.parametrize(
    "line", [b"OPTIONS * HTTP/1.1", b"CONNECT a:443 HTTP/1.1", b"GET /\xff HTTP/1.1"]
)
async def test_a_target_that_is_no_path_is_the_callers_fault(
    gateway: Gateway, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await send(gateway.port, line + b"\r\nhost: a\r\n\r\n")
    assert (reply.status, reply.error["code"]) == (400, "invalid_request")
    assert "request parser failed" not in caplog.text


@pytest.mark.parametrize("is_hot", [True, False])
@pytest.mark.parametrize("sent", [request_bytes(BODY), HEALTH])
async def test_a_request_names_one_host(upstream: Upstream, sent: bytes, is_hot: bool) -> None:
    line = b"host: gateway\r\n"
    later = sent.replace(b"HTTP/1.1", b"HTTP/1.0")
    refused = [sent.replace(line, b""), *(one.replace(line, line * 2) for one in (sent, later))]
    served = [later.replace(line, b""), sent.replace(line, b"Host:\r\n")]
    snapshot = configuration(pool_record("a", upstream.base_url))
    async with running_gateway(snapshot, is_hot=is_hot) as gateway:
        for one in served:
            assert (await send(gateway.port, one)).status == 200
        for one in refused:
            # behind a request that is answered, be its head known by now
            async with opened(gateway.port, sent) as call:
                await call.read_head()
                assert (await call.read_rest()).status == 200
                call.writer.write(one)
                call.body = b""
                await call.read_head()
                reply = await call.read_rest()
                assert await call.reader.read() == b""
            assert (reply.status, reply.error["code"]) == (400, "invalid_request")
            assert reply.error["message"] == "The request has no Host header, or more than one."
            assert reply.headers["connection"] == "close"


async def test_trailers_are_no_headers(gateway: Gateway) -> None:
    head = request_bytes(None, token=None, headers={"transfer-encoding": "chunked"})
    trailer = b"authorization: Bearer %b\r\n" % TOKEN.encode()
    whole = b"%b%x\r\n%b\r\n0\r\n%b\r\n" % (head, len(BODY), BODY, trailer)
    assert (await send(gateway.port, whole)).status == 401
    async with opened(gateway.port, HEALTH + whole) as call:
        for status in (200, 401):
            call.body = b""
            await call.read_head()
            assert (await call.read_rest()).status == status


@pytest.mark.parametrize(
    "begun", [b"5;x=", b"0\r\nx: ", b"0\r\n"], ids=["extension", "trailer", "trailers"]
)
async def test_what_surrounds_chunks_is_bounded(gateway: Gateway, begun: bytes) -> None:
    part = b"x" * 1_000 if begun != b"0\r\n" else b"x: " + b"x" * 1_000 + b"\r\n"
    async with opened(gateway.port, CHUNKED_HEAD + begun) as call:
        await gateway.wait_for(lambda: gateway.tasks)  # what comes with the head counts to that
        for _ in range(MAX_HEAD_BYTES // 1_000 + 2):
            call.writer.write(part)
        await call.read_head()
        assert (await call.read_rest()).status == 400
    await gateway.wait_for(lambda: not gateway.tasks)


async def test_two_thousand_requests_sent_ahead_are_all_answered(gateway: Gateway) -> None:
    async with opened(gateway.port, HEALTH * 2_000) as call:
        for _ in range(2_000):
            await call.reader.readuntil(b'{"status":"ok"}')

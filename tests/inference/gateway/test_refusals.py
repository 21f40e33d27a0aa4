"""What is refused before any worker is asked: bodies, models, keys."""

import asyncio
import json
import time
import tracemalloc
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from inference.contract.kinds import Outcome, PoolPower, Scope
from inference.contract.sealing import token_digest
from inference.contract.snapshot import KeyDigest, OrganisationRecord
from inference.gateway.auth import warn_of_lost_peppers
from tests.inference.gateway.client import (
    BASE,
    CHAT,
    Reply,
    chat,
    opened,
    request_bytes,
    send,
)
from tests.inference.gateway.rig import (
    PEPPERS,
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream

LIMIT = 1024 * 1024
BODY = json.dumps(BASE).encode()


def body_of(size: int) -> bytes:
    """A valid body of exactly this many bytes."""
    empty = json.dumps({**BASE, "messages": [{"role": "user", "content": ""}]}).encode()
    return empty.replace(b'"content": ""', b'"content": "%b"' % (b"a" * (size - len(empty))))


def assert_refused(reply: Reply, gateway: Gateway, upstream: Upstream) -> None:
    """Nothing went upstream, nothing is under way, the books say it was refused."""
    assert upstream.calls == []
    assert gateway.inflight == 0
    assert gateway.books.openings == []
    end = gateway.books.end
    assert (end.outcome, end.http_status, end.charges) == (Outcome.REFUSED, reply.status, ())
    assert end.error_code == reply.error["code"]
    assert reply.headers["x-request-id"] == end.event_id


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"model":"m","mess',
        b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
        b"[1,2]",
        b'{"model":"m","messages":"ping"}',
        b'{"model":"m","messages":[],"temperature":NaN}',
        b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
        b"<html></html>",
    ],
)
async def test_a_body_that_cannot_be_read_is_the_callers_fault(
    gateway: Gateway, upstream: Upstream, body: bytes
) -> None:
    reply = await send(gateway.port, request_bytes(body))
    assert reply.status == 400
    assert (reply.error["type"], reply.error["code"]) == (
        "invalid_request_error",
        "invalid_request",
    )
    assert "Traceback" not in reply.body.decode()
    assert_refused(reply, gateway, upstream)


HALVES = [
    b'{"model":"\\ud83d"}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ud83d, and more of it"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ude00, and more of it"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ud83d\\u0041, and more"}]}',
    b'{"\\ud83d, and more of it":1,"model":"m"}',
]


@pytest.mark.parametrize("body", HALVES)
async def test_half_a_surrogate_pair_is_called_by_its_name(gateway: Gateway, body: bytes) -> None:
    reply = await send(gateway.port, request_bytes(body))
    assert (reply.status, reply.error["message"]) == (
        400,
        "The request body is not valid Unicode: it has half of a surrogate pair.",
    )


@pytest.mark.parametrize("body", [b'{"model":"\\ud83d\\ude00', b'{"model":"\\\\ud83d'])
async def test_a_body_that_ends_early_is_called_that(gateway: Gateway, body: bytes) -> None:
    reply = await send(gateway.port, request_bytes(body))
    assert reply.error["message"] == (
        "The request body is not valid JSON: Input data was truncated."
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_the_content_type_does_not_matter(gateway: Gateway, kind: str) -> None:
    request = request_bytes(BODY).replace(b"application/json", kind.encode())
    assert (await send(gateway.port, request)).status == 200


async def test_encoded_bodies_are_refused(gateway: Gateway, upstream: Upstream) -> None:
    reply = await send(gateway.port, request_bytes(BODY, headers={"content-encoding": "gzip"}))
    assert (reply.status, reply.error["code"]) == (415, "unsupported_encoding")
    assert_refused(reply, gateway, upstream)


async def test_a_body_of_the_limit_is_served_and_one_byte_more_is_not(
    gateway: Gateway, upstream: Upstream
) -> None:
    assert (await send(gateway.port, request_bytes(body_of(LIMIT)))).status == 200
    reply = await send(gateway.port, request_bytes(body_of(LIMIT + 1)))
    assert (reply.status, reply.error["code"]) == (413, "request_too_large")
    assert str(LIMIT) in reply.error["message"]
    assert len(upstream.calls) == 1


def chunked(body: bytes, size: int = 64 * 1024) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def test_chunked_bodies_have_the_same_limit(gateway: Gateway, upstream: Upstream) -> None:
    head = request_bytes(None, headers={"transfer-encoding": "chunked"})
    assert (await send(gateway.port, head + chunked(body_of(LIMIT)))).status == 200
    assert upstream.calls[0].headers["content-length"] == str(upstream.calls[0].body_bytes)
    async with opened(gateway.port, head) as call:
        sending = asyncio.create_task(_send_slowly(call.writer, chunked(body_of(4 * LIMIT))))
        await call.read_head()
        reply = await call.read_rest()
        await sending
    assert (reply.status, len(upstream.calls)) == (413, 1)


async def _send_slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 256 * 1024):
        writer.write(data[start : start + 256 * 1024])
        await writer.drain()


async def test_a_body_over_the_limit_takes_no_memory(gateway: Gateway) -> None:
    head = request_bytes(None, headers={"content-length": str(40 * LIMIT)})
    piece = b"x" * (256 * 1024)
    async with opened(gateway.port, head) as call:
        await call.read_head()
        assert (await call.read_rest()).status == 413
        tracemalloc.start()
        for _ in range(160):
            call.writer.write(piece)
            await call.writer.drain()
        call.writer.write(request_bytes(BODY))
        call.body = b""
        await call.read_head()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert call.status == 200
    assert peak < 8 * LIMIT


async def test_a_client_that_waits_to_send_its_body_is_told_before_it_does(
    gateway: Gateway,
) -> None:
    waits = {"expect": "100-continue", "content-length": str(40 * LIMIT)}
    async with opened(gateway.port, request_bytes(None, headers=waits)) as call:
        await call.read_head()
        assert (call.status, call.headers["connection"]) == (413, "close")
    waits = {"expect": "100-continue", "content-length": str(len(BODY))}
    async with opened(gateway.port, request_bytes(None, headers=waits)) as call:
        await call.read_head()
        assert call.status == 100
        call.writer.write(BODY)
        await call.read_head()
        assert call.status == 200


async def test_an_unknown_model_is_not_found(gateway: Gateway, upstream: Upstream) -> None:
    reply = await chat(gateway.port, model="nope")
    assert reply.status == 404
    assert reply.error == {
        "message": "The model does not exist, or this API key may not use it.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert_refused(reply, gateway, upstream)
    assert gateway.books.end.origin.requested_model == "nope"


@pytest.mark.parametrize("model", ["", None, 3, ["m"]])
async def test_a_model_that_is_no_name_is_invalid(
    gateway: Gateway, upstream: Upstream, model: object
) -> None:
    reply = await chat(gateway.port, model=model)
    assert (reply.status, reply.error["param"]) == (400, "model")
    assert_refused(reply, gateway, upstream)


async def test_a_model_of_another_tenant_looks_like_one_that_is_not_there(
    upstream: Upstream,
) -> None:
    routes = (route_record("a"), route_record("a", name="theirs", organisation_id="org_b"))
    pool = pool_record("a", upstream.base_url)
    limited = key_record(TOKEN, route_names=())
    async with running_gateway(configuration(pool, routes=routes)) as gateway:
        theirs = await chat(gateway.port, model="theirs")
        nobodys = await chat(gateway.port, model="nobodys")
        gateway.apply(configuration(pool, routes=routes, keys=(limited,)))
        forbidden = await chat(gateway.port, model="m")
    assert theirs.status == 404
    assert theirs.body == nobodys.body == forbidden.body


async def test_what_is_kept_of_a_model_name_is_short_and_printable(gateway: Gateway) -> None:
    await chat(gateway.port, model="a\u0000b\u2028" + "x" * 10_000)
    requested = gateway.books.end.origin.requested_model
    assert requested == "a?b?" + "x" * 124


@pytest.mark.parametrize("name", ["hw_0123abc", "hwt_9"])
async def test_a_key_in_the_wrong_place_is_kept_nowhere(gateway: Gateway, name: str) -> None:
    misplaced = f"{name}.CANARY-of_43"
    body = json.dumps({**BASE, "model": misplaced}).encode()
    headers = {"x-request-id": f"id {misplaced}"}
    with capture_logs() as logs:
        reply = await send(gateway.port, request_bytes(body, headers=headers))
    assert reply.status == 404
    end = gateway.books.end
    assert end.origin.requested_model == f"{name}.***"
    assert end.client_request_id == f"id {name}.***"
    assert "CANARY" not in repr((reply, logs, gateway.books))


async def test_a_known_model_without_a_worker_is_capacity_not_absence(upstream: Upstream) -> None:
    stopped = pool_record("a", upstream.base_url, power=PoolPower.STOPPED)
    async with running_gateway(configuration(stopped)) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "no_capacity")
        assert reply.headers["retry-after"] == "5"
        assert_refused(reply, gateway, upstream)
        assert gateway.books.end.origin.route_id == "rt_m"


EXPIRED = key_record("hw_expired.secret", expires_at=time.time() - 1)
REVOKED = key_record("hw_revoked.secret", is_enabled=False)
ORPHAN = key_record("hw_orphan.secret", organisation_id="org_gone")
CLOSED = key_record("hw_closed.secret", organisation_id="org_b")
UNSCOPED = key_record("hw_unscoped.secret", scopes=(Scope.DEBUG,))
REFUSED_TOKENS = [
    ("hw_expired.secret", 401),
    ("hw_revoked.secret", 401),
    ("hw_orphan.secret", 401),
    ("hw_closed.secret", 401),
    ("hw_unscoped.secret", 403),
    ("hw_nobody.CANARY", 401),
    ("hw_0123456789abcdefghjkmnpqrs.CANARY", 401),
    ("hw_0123456789abcdefghjkmnpqrs", 401),
    ("CANARY-TOKEN", 401),
    ("sk-proj-CANARY", 401),
    ("hw_" + "CANARY" * 100, 401),
    ("", 401),
]


@pytest.mark.parametrize(("token", "status"), REFUSED_TOKENS)
async def test_a_key_that_may_not_is_refused_and_repeated_nowhere(
    upstream: Upstream, token: str, status: int
) -> None:
    snapshot = configuration(
        pool_record("a", upstream.base_url),
        keys=(key_record(TOKEN), EXPIRED, REVOKED, ORPHAN, CLOSED, UNSCOPED),
        organisations=(
            OrganisationRecord("org_a", "Water"),
            OrganisationRecord("org_b", "Shut", is_enabled=False),
        ),
    )
    async with running_gateway(snapshot) as gateway:
        with capture_logs() as logs:
            reply = await chat(gateway.port, token=token)
        assert reply.status == status
        assert reply.error["code"] == ("invalid_api_key" if status == 401 else "insufficient_scope")
        seen = repr((reply, logs, gateway.books))
        assert not token or token not in seen
        assert "CANARY" not in seen
        assert gateway.books.ends == []
        assert gateway.metric("requests_total", route="none", outcome="refused") == 1
    assert upstream.calls == []


async def test_without_a_key_the_caller_is_told_how_to_send_one(gateway: Gateway) -> None:
    reply = await chat(gateway.port, token=None)
    assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
    assert "Authorization: Bearer" in reply.error["message"]


async def test_both_secrets_of_a_key_work_until_the_old_one_ends(upstream: Upstream) -> None:
    old, new = "hw_rotated.old-secret", "hw_rotated.new-secret"

    def accepted_until(until: float) -> object:
        digests = (
            KeyDigest(2, token_digest(PEPPERS[2], new)),
            KeyDigest(1, token_digest(PEPPERS[1], old), until),
        )
        key = replace(key_record(new), digests=digests)
        return configuration(pool_record("a", upstream.base_url), keys=(key,))

    async with running_gateway(accepted_until(time.time() + 60)) as gateway:
        statuses = [(await chat(gateway.port, token=token)).status for token in (old, new)]
        assert statuses == [200, 200]
        gateway.apply(accepted_until(time.time() - 1))
        statuses = [(await chat(gateway.port, token=token)).status for token in (old, new)]
        assert statuses == [401, 200]


async def test_a_key_of_a_pepper_that_is_gone_is_not_valid(upstream: Upstream) -> None:
    forgotten = replace(key_record(TOKEN), digests=(KeyDigest(9, token_digest(b"x", TOKEN)),))
    snapshot = configuration(pool_record("a", upstream.base_url), keys=(forgotten,))
    async with running_gateway(snapshot) as gateway:
        assert (await chat(gateway.port)).status == 401


def test_keys_of_a_pepper_that_is_gone_are_told_of_in_one_line() -> None:
    digests = (KeyDigest(9, "ab" * 32), KeyDigest(2, "ab" * 32), KeyDigest(7, "ab" * 32))
    keys = tuple(key_record(f"hw_{n}.x", digests=digests) for n in range(50))
    with capture_logs() as logs:
        warn_of_lost_peppers(configuration(keys=keys, routes=()), peppers=PEPPERS)
        warn_of_lost_peppers(configuration(), peppers=PEPPERS)
    assert logs == [
        {
            "event": "keys have a pepper this process lacks",
            "log_level": "error",
            "pepper_versions": [7, 9],
            "digests": 100,
            "snapshot_version": 7,
        }
    ]


async def test_the_scheme_is_bearer_in_any_case(gateway: Gateway) -> None:
    for scheme, status in (("bearer", 200), ("BEARER", 200), ("Basic", 401), ("", 401)):
        headers = {"authorization": f"{scheme} {TOKEN}"}
        request = request_bytes(BODY, token=None, path=CHAT, headers=headers)
        assert (await send(gateway.port, request)).status == status

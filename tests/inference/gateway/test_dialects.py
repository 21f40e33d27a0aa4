"""Errors, keys and ids as Anthropic's callers know them, on their paths and no others."""

import json

import pytest

from inference.errors import (
    CallerError,
    GatewayError,
    NoCapacity,
    RateLimitExceeded,
    UpstreamRefused,
)
from inference.gateway.dialects import Dialect, dialect_at
from inference.gateway.error_responses import error_body, error_response
from tests.inference.gateway.client import Reply, request_bytes, send
from tests.inference.gateway.rig import TOKEN, Gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

MESSAGES = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "ping"}]}


async def ask(gateway: Gateway, *, key: str | None = TOKEN, **fields: object) -> Reply:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "x-1"}
    if key is not None:
        headers["x-api-key"] = key
    body = json.dumps({**MESSAGES, **fields}).encode()
    request = request_bytes(body, path="/v1/messages", token=None, headers=headers)
    return await send(gateway.port, request)


async def test_a_key_may_come_in_anthropics_header_and_goes_no_further(
    gateway: Gateway, upstream: Upstream
) -> None:
    reply = await ask(gateway)
    assert (reply.status, reply.json["content"][0]["text"]) == (200, "one two three four five")
    assert reply.headers["request-id"] == reply.headers["x-request-id"]
    sent = upstream.calls[0].headers
    assert not {"x-api-key", "anthropic-version", "anthropic-beta"} & set(sent)
    assert TOKEN not in json.dumps(sent)


async def test_a_key_in_both_headers_is_the_authorization(gateway: Gateway) -> None:
    body = json.dumps(MESSAGES).encode()
    request = request_bytes(body, path="/v1/messages", headers={"x-api-key": "hw_other.secret"})
    assert (await send(gateway.port, request)).status == 200
    request = request_bytes(
        body, path="/v1/messages", token="hw_other.secret", headers={"x-api-key": TOKEN}
    )
    assert (await send(gateway.port, request)).status == 401


@pytest.mark.parametrize(
    ("fields", "status", "kind", "details"),
    [
        ({"key": None}, 401, "authentication_error", {"error_code": "invalid_api_key"}),
        ({"key": "hw_x.y"}, 401, "authentication_error", {"error_code": "invalid_api_key"}),
        (
            {"model": "nope"},
            404,
            "not_found_error",
            {"error_code": "model_not_found", "param": "model"},
        ),
        (
            {"messages": "a"},
            400,
            "invalid_request_error",
            {"error_code": "invalid_request", "param": "messages"},
        ),
    ],
)
async def test_refusals_have_anthropics_shape(
    gateway: Gateway, fields: dict[str, object], status: int, kind: str, details: dict[str, str]
) -> None:
    reply = await ask(gateway, **fields)  # type: ignore[arg-type]
    message = reply.json["error"]["message"]
    assert reply.status == status
    assert reply.json == {
        "type": "error",
        "error": {"type": kind, "message": message, "details": details},
    }
    assert message
    assert TOKEN not in message
    assert reply.headers["request-id"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    ("behaviour", "status", "kind"),
    [
        (Behaviour(status=400, body='{"error":{"message":"no","code":400}}'), 400, "invalid"),
        (Behaviour(status=400, body='{"type":"error","error":{"message":"no"}}'), 400, "invalid"),
        (Behaviour(status=422, body='{"error":{"message":"no"}}'), 422, "invalid"),
        (Behaviour(status=500), 502, "api"),
        (Behaviour(status=503, headers={"retry-after": "7"}), 503, "overloaded"),
    ],
)
async def test_a_workers_no_is_told_in_anthropics_words(
    gateway: Gateway, upstream: Upstream, behaviour: Behaviour, status: int, kind: str
) -> None:
    upstream.play(behaviour)
    reply = await ask(gateway)
    assert (reply.status, reply.json["type"]) == (status, "error")
    assert reply.json["error"]["type"].startswith(kind)
    if status == 503:
        assert reply.headers["retry-after"] == "7"
    elif status < 500:
        assert reply.json["error"]["message"] == "no"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v1/messages", "GET", 405),
        ("/v1/messages/batches", "POST", 404),
        ("/v1/messages/count_tokens", "PUT", 405),
    ],
)
async def test_what_is_not_offered_there_is_refused_in_that_shape(
    gateway: Gateway, path: str, method: str, status: int
) -> None:
    reply = await send(gateway.port, request_bytes(b"{}", path=path, method=method))
    assert (reply.status, reply.json["type"]) == (status, "error")
    assert reply.headers["request-id"]


async def test_a_fault_of_ours_is_told_in_that_shape_too(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_kwargs: object) -> bytes:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr("inference.gateway.sending.upstream_body", broken)
    reply = await ask(gateway)
    assert (reply.status, reply.code) == (500, "internal_error")
    assert reply.json["error"]["type"] == "api_error"
    assert b"unforeseen" not in reply.body


def test_every_refusal_has_a_type_that_follows_from_its_status() -> None:
    refused = UpstreamRefused(429, {"message": "slow", "type": "x", "code": "y"})
    for error, kind in (
        (CallerError("a"), "invalid_request_error"),
        (NoCapacity(), "overloaded_error"),
        (GatewayError(), "api_error"),
        (refused, "rate_limit_error"),
    ):
        body = json.loads(error_body(error, Dialect.ANTHROPIC))
        assert (body["type"], body["error"]["type"]) == ("error", kind)
        assert "\n" not in error_body(error, Dialect.ANTHROPIC).decode()


def test_only_anthropics_paths_speak_anthropics() -> None:
    assert dialect_at("/v1/messages") is dialect_at("/v1/messages/x") is Dialect.ANTHROPIC
    assert dialect_at("/v1/responses") is dialect_at("/v1/chat/completions") is Dialect.OPENAI


@pytest.mark.parametrize(
    ("seconds", "headers"),
    [
        (60, ((b"retry-after", b"60"),)),
        (61, ((b"retry-after", b"61"), (b"x-should-retry", b"false"))),
    ],
)
def test_clients_that_would_wait_for_hours_are_told_not_to(
    seconds: int, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    assert error_response(NoCapacity(retry_after_s=seconds)).headers == headers


def test_what_can_never_pass_is_not_to_be_tried_again() -> None:
    never = error_response(RateLimitExceeded("The request is too large for the limit."))
    assert never.headers == ((b"x-should-retry", b"false"),)
    assert error_response(CallerError()).headers == ()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
    ],
)
async def test_no_response_is_found_again_and_asking_costs_nothing(
    gateway: Gateway, upstream: Upstream, method: str, path: str
) -> None:
    reply = await send(gateway.port, request_bytes(None, path=path, method=method))
    assert (reply.status, reply.error["code"]) == (404, "response_not_found")
    assert "not stored" in reply.error["message"]
    stranger = request_bytes(None, path=path, method=method, token=None)
    assert (await send(gateway.port, stranger)).status == 401
    assert (gateway.books.ends, upstream.calls) == ([], [])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/v1/responses/resp_1", 405),
        ("POST", "/v1/responses/resp_1/other", 404),
        ("GET", "/v1/responses/", 404),
        ("GET", "/v1/responses", 405),
    ],
)
async def test_other_paths_there_are_none(
    gateway: Gateway, method: str, path: str, status: int
) -> None:
    reply = await send(gateway.port, request_bytes(None, path=path, method=method))
    assert reply.status == status

"""Streams of responses and messages over real sockets: relayed, booked, cut, left and failed."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome
from tests.inference.gateway.client import Reply, opened, post, request_bytes, send
from tests.inference.gateway.rig import (
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

MAXIMUM = 100


@dataclass(frozen=True)
class Style:
    """How one endpoint streams: a call, the event that carries text, and the last one."""

    endpoint: Endpoint
    path: str
    fields: dict[str, Any]
    prelude: int
    piece: str
    last: str
    cut_usage: Usage


RESPONSES = Style(
    Endpoint.RESPONSES,
    "/v1/responses",
    {"input": "ping", "max_output_tokens": MAXIMUM, "stream": True},
    4,
    "response.output_text.delta",
    "response.completed",
    Usage(None, 2),
)
MESSAGES = Style(
    Endpoint.MESSAGES,
    "/v1/messages",
    {
        "messages": [{"role": "user", "content": "ping"}],
        "max_tokens": MAXIMUM,
        "stream": True,
    },
    2,
    "content_block_delta",
    "message_stop",
    Usage(10, 2),
)
each_style = pytest.mark.parametrize("style", [RESPONSES, MESSAGES], ids=["responses", "messages"])


def names(reply: Reply) -> list[str]:
    lines = reply.body.decode().split("\n")
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


async def ask(gateway: Gateway, style: Style) -> Reply:
    return await post(gateway.port, style.path, **style.fields)


def failed(style: Style, reply: Reply) -> dict[str, Any]:
    """The members of the last event, which has to be an error."""
    assert (reply.is_whole, names(reply)[-1]) == (False, "error")
    last: dict[str, Any] = json.loads(reply.events[-1])
    assert last["type"] == "error"
    return last


@each_style
async def test_a_stream_is_relayed_as_it_is_and_booked_as_it_was_counted(
    gateway: Gateway, upstream: Upstream, style: Style
) -> None:
    reply = await ask(gateway, style)
    assert (reply.status, reply.is_whole) == (200, True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (names(reply).count(style.piece), names(reply)[-1]) == (5, style.last)
    assert [json.loads(data)["type"] for data in reply.events] == names(reply)
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.origin.endpoint, end.origin.is_stream) == (
        Outcome.OK,
        style.endpoint,
        True,
    )
    assert (charge.kind, charge.usage.prompt_tokens, charge.usage.completion_tokens) == (
        ChargeKind.FINAL,
        10,
        5,
    )
    assert charge.cost_nanousd == 20_000_000
    assert (end.first_token_ms or 0) > 0
    assert "tokens_not_generated" not in (end.decision or {})
    sent = json.loads(upstream.calls[0].body or "")
    assert (sent["model"], "stream_options" in sent) == ("served-a", False)


@each_style
async def test_the_end_is_in_the_books_before_the_client_has_it(
    gateway: Gateway, upstream: Upstream, style: Style
) -> None:
    upstream.play(Behaviour(gap_ms=10))
    seen: list[bytes] = []
    body = json.dumps({"model": "m", **style.fields}).encode()
    async with opened(gateway.port, request_bytes(body, path=style.path)) as call:
        await call.read_head()
        gateway.books.wrote = lambda _fact: seen.append(call.body)
        reply = await call.read_rest()
    last = f"event: {style.last}".encode()
    assert len(seen) == 1
    assert last not in seen[0]
    assert last in reply.body


@each_style
async def test_what_fails_before_its_first_word_is_asked_elsewhere(
    pair: Gateway, upstream: Upstream, style: Style
) -> None:
    upstream.play(Behaviour(cut_after=style.prelude, ending="reset"))
    reply = await ask(pair, style)
    assert (reply.status, reply.is_whole, names(reply).count(style.piece)) == (200, True, 5)
    assert names(reply).count(names(reply)[0]) == 1
    assert [charge.pool_id for charge in pair.books.end.charges] == ["pool_a", "pool_b"]


@each_style
async def test_a_stream_that_breaks_off_ends_with_an_error_and_is_booked_for_what_came(
    gateway: Gateway, upstream: Upstream, style: Style
) -> None:
    upstream.play(Behaviour(cut_after=style.prelude + 2, ending="reset"))
    reply = await ask(gateway, style)
    last = failed(style, reply)
    if style is MESSAGES:
        assert last["error"] == {
            "type": "api_error",
            "message": "The model's worker closed the connection before its answer was complete.",
            "details": {"error_code": "upstream_closed"},
        }
    else:
        assert (last["code"], last["error"]["code"]) == ("upstream_closed", "upstream_closed")
        numbers = [json.loads(data)["sequence_number"] for data in reply.events]
        assert numbers == list(range(len(numbers)))
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.error_code) == (Outcome.ERROR, "upstream_closed")
    assert (charge.kind, charge.usage) == (ChargeKind.CUT, style.cut_usage)
    assert charge.cost_max_nanousd == gateway.books.openings[0].cost_max_nanousd
    assert (end.decision or {})["tokens_not_generated"] == MAXIMUM - 2


@pytest.mark.parametrize(
    ("style", "frame", "code"),
    [
        (
            RESPONSES,
            {"type": "response.failed", "response": {"error": {"code": "server_error"}}},
            "upstream_failed",
        ),
        (
            RESPONSES,
            {"type": "error", "code": "rate_limit_exceeded", "message": "full"},
            "upstream_saturated",
        ),
        (
            MESSAGES,
            {"type": "error", "error": {"type": "overloaded_error", "message": "full"}},
            "upstream_saturated",
        ),
        (
            MESSAGES,
            {"type": "error", "error": {"type": "internal_error", "message": "x"}},
            "upstream_failed",
        ),
    ],
)
async def test_a_workers_own_error_is_a_failure_wherever_it_stands(
    pair: Gateway, upstream: Upstream, style: Style, frame: dict[str, Any], code: str
) -> None:
    error = f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n"
    upstream.play(Behaviour(frames=[error], calls=1))
    assert (await ask(pair, style)).is_whole
    assert pair.books.end.charges[0].error_code == code
    delta = {"type": style.piece, "delta": {"type": "text_delta", "text": "a"}}
    content = f"event: {style.piece}\ndata: {json.dumps(delta)}\n\n"
    upstream.play(Behaviour(frames=[content, error], gap_ms=250))
    if code == "upstream_saturated":
        pair.skipped_s = 60  # it was set aside for its first
    reply = await ask(pair, style)
    failed(style, reply)
    assert names(reply) == [style.piece, "error"]
    assert pair.books.ends[1].error_code == code


@each_style
@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_ends_the_workers_call_and_what_that_spared_is_counted(
    gateway: Gateway, upstream: Upstream, style: Style, is_stream: bool
) -> None:
    upstream.play(Behaviour(gap_ms=100) if is_stream else Behaviour(delay_ms=5_000))
    body = json.dumps({"model": "m", **style.fields, "stream": is_stream}).encode()
    async with opened(gateway.port, request_bytes(body, path=style.path)) as call:
        if is_stream:
            await call.read_head()
            await call.read_until(b"two")
        else:
            await gateway.wait_for(lambda: upstream.calls)
        left = time.monotonic()
        call.leave()
        await gateway.wait_ended()
        # far less than the worker would still take
        assert time.monotonic() - left < 2
    await gateway.wait_for(lambda: upstream.calls[0].is_closed_early)
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.error_code) == (Outcome.CANCELLED, "client_left")
    generated = charge.usage.completion_tokens or 0
    assert generated in ((2, 3) if is_stream else (0,))
    spared = MAXIMUM - generated
    assert (end.decision or {})["tokens_not_generated"] == spared
    counted = gateway.registry.get_sample_value(
        "headworks_tokens_not_generated_total", {"route": "rt_m"}
    )
    assert counted == spared


async def test_what_was_spared_is_unknown_where_nobody_named_a_maximum(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=5_000))
    body = b'{"model":"m","input":"ping"}'
    async with opened(gateway.port, request_bytes(body, path="/v1/responses")) as call:
        await gateway.wait_for(lambda: upstream.calls)
        call.leave()
        await gateway.wait_ended()
    assert "tokens_not_generated" not in (gateway.books.end.decision or {})


@pytest.fixture
async def patient(upstream: Upstream) -> AsyncIterator[Gateway]:
    """A gateway whose route sends comments in a silence."""
    route = route_record("a", keep_alive_ms=1_000)
    snapshot = configuration(pool_record("a", upstream.base_url), routes=(route,))
    async with running_gateway(snapshot) as gateway:
        yield gateway


@pytest.mark.slow
async def test_a_failure_after_a_comment_is_told_in_the_callers_shape(
    patient: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(delay_ms=1_200, before_head="close"))
    reply = await ask(patient, MESSAGES)
    assert reply.body.startswith(b":\n")
    assert reply.headers["request-id"] == reply.headers["x-request-id"]
    last = failed(MESSAGES, reply)
    assert last["error"]["details"]["error_code"] == "upstream_closed"


async def test_cached_tokens_of_a_message_have_their_price(
    gateway: Gateway, upstream: Upstream
) -> None:
    usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10}
    upstream.play(Behaviour(usage=usage))
    await ask(gateway, MESSAGES)
    body = json.dumps({"model": "m", **MESSAGES.fields, "stream": False}).encode()
    await send(gateway.port, request_bytes(body, path=MESSAGES.path))
    usages = [end.charges[0].usage for end in gateway.books.ends]
    assert usages == [Usage(1_000, 10, 900)] * 2

"""Whole answers: what is forwarded, what comes back, under which headers."""

import hashlib
import json
from dataclasses import replace

import pytest

from inference.contract.events import PriceUsed, Usage
from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import Backend, ChargeKind, Outcome, Provisioner, WorkerState
from inference.contract.sealing import worker_key
from tests.inference.gateway.client import BASE, chat, opened, request_bytes, send
from tests.inference.gateway.rig import (
    CREDENTIAL,
    DATA_KEY,
    DEBUG_TOKEN,
    TOKEN,
    Gateway,
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour


async def test_an_answer_comes_back_as_it_was_given(gateway: Gateway, upstream: Upstream) -> None:
    answer = '{"choices": [{"message": {"content": "é\\u0000"}}],  "x": 1e-7, "usage": null}'
    upstream.play(Behaviour(body=answer))
    reply = await chat(gateway.port)
    assert (reply.status, reply.body) == (200, answer.encode())


@pytest.mark.parametrize("answer", ["{}", '{"detail": "x"}', '{"choices": []}', "null"])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_answer_without_a_choice_is_none(
    gateway: Gateway, upstream: Upstream, answer: str, is_stream: bool
) -> None:
    upstream.play(Behaviour(body=answer))
    reply = await chat(gateway.port, stream=is_stream)
    assert (reply.status, reply.error["code"]) == (502, "upstream_bad_answer")
    assert gateway.books.end.outcome is Outcome.ERROR


async def test_an_answer_may_be_kept_by_nobody_but_the_caller(gateway: Gateway) -> None:
    reply = await chat(gateway.port)
    assert reply.headers == {
        "content-type": "application/json",
        "content-length": str(len(reply.body)),
        "cache-control": "private, no-store",
        "vary": "Authorization",
        "x-request-id": gateway.books.end.event_id,
    }


async def test_the_end_of_a_request_says_all_of_it(gateway: Gateway, upstream: Upstream) -> None:
    body = json.dumps({**BASE, "max_tokens": 100}).encode()
    request = request_bytes(body, headers={"x-request-id": "client-1"})
    await send(gateway.port, request)
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.http_status, end.error_code) == (Outcome.OK, 200, None)
    assert (end.origin.requested_model, end.origin.route_id) == ("m", "rt_m")
    assert (end.origin.lineage, end.origin.version) == ("L1", 7)
    assert (end.origin.key_id, end.origin.team_id, end.origin.project_id) == (
        key_record(TOKEN).id,
        "team_a",
        "proj_a",
    )
    assert (end.client_request_id, end.output_tokens_max) == ("client-1", 100)
    assert end.first_token_ms is None
    assert 0 < charge.duration_ms <= end.total_ms
    assert (charge.target_id, charge.pool_id, charge.worker_id) == ("tgt_a", "pool_a", "pool_a-0")
    assert (charge.kind, charge.usage) == (ChargeKind.FINAL, Usage(10, 5))
    assert charge.price == PriceUsed("prc_a", 10**12, 2 * 10**12)
    assert (charge.cost_nanousd, charge.cost_max_nanousd) == (20_000_000, 20_000_000)


async def test_the_worker_gets_our_credential_and_nothing_of_the_callers(
    gateway: Gateway, upstream: Upstream
) -> None:
    headers = {
        "x-request-id": "client-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "cookie": "session=secret",
        "x-api-key": "secret",
        "x-internal-token": "secret",
        "openai-organization": "org-secret",
        "user-agent": "client/1",
        "x-forwarded-for": "10.0.0.1",
    }
    await send(gateway.port, request_bytes(json.dumps(BASE).encode(), headers=headers))
    (call,) = upstream.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers == {
        "host": f"127.0.0.1:{upstream.port}",
        "content-length": str(call.body_bytes),
        "content-type": "application/json",
        "accept": "application/json",
        "accept-encoding": "identity",
        "x-request-id": gateway.books.end.event_id,
        "traceparent": headers["traceparent"],
        "tracestate": "a=b",
        "authorization": f"Bearer {CREDENTIAL}",
    }
    assert TOKEN not in (call.body or "")


async def test_a_pool_without_a_credential_sends_none(upstream: Upstream) -> None:
    pool = pool_record("a", upstream.base_url, credential=None)
    async with running_gateway(configuration(pool)) as gateway:
        await chat(gateway.port)
    assert "authorization" not in upstream.calls[0].headers


async def test_a_worker_we_started_gets_its_derived_key(upstream: Upstream) -> None:
    pool = pool_record("a", provisioner=Provisioner.PROCESS, credential=None)
    worker = WorkerEntry(
        "pool_a-0", "pool_a", upstream.base_url, WorkerState.READY, 0.0, uses_derived_key=True
    )
    async with running_gateway(configuration(pool)) as gateway:
        assert (await chat(gateway.port)).status == 503
        gateway.fleet.apply_directory(Directory(1, 1, 0.0, (worker,)))
        assert (await chat(gateway.port)).status == 200
    key = worker_key(DATA_KEY, "pool_a-0")
    assert upstream.calls[0].headers["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("megabytes", [1.5, 10])
@pytest.mark.slow
async def test_a_large_body_arrives_whole(upstream: Upstream, megabytes: float) -> None:
    image = "A" * int(megabytes * 1024 * 1024)
    fields = {"messages": [{"role": "user", "content": [{"type": "image_url", "url": image}]}]}
    snapshot = configuration(pool_record("a", upstream.base_url))
    async with running_gateway(snapshot, body_limit_bytes=32 * 1024 * 1024) as gateway:
        reply = await chat(gateway.port, **fields)
    assert reply.status == 200
    expected = json.dumps({**BASE, **fields}).replace('"model": "m"', '"model":"served-a"')
    sent = json.loads(expected)
    members = ",".join(f'"{name}":{json.dumps(value)}' for name, value in sent.items())
    assert upstream.calls[0].body_sha256 == hashlib.sha256(f"{{{members}}}".encode()).hexdigest()


async def test_a_connection_is_used_again_by_both_sides(
    gateway: Gateway, upstream: Upstream
) -> None:
    body = json.dumps(BASE).encode()
    before = upstream.report().connections
    async with opened(gateway.port, request_bytes(body)) as call:
        for _ in range(3):
            await call.read_head()
            assert (await call.read_rest()).status == 200
            call.body = b""
            call.writer.write(request_bytes(body))
    # one for the calls, one for the report before and one for this
    assert upstream.report().connections - before == 2


async def test_what_was_decided_is_shown_to_keys_that_may_know(pair: Gateway) -> None:
    body = json.dumps(BASE).encode()
    asked = {"x-headworks-debug": "1"}
    plain = await send(pair.port, request_bytes(body, headers=asked))
    assert not any(name.startswith("x-headworks") for name in plain.headers)
    reply = await send(pair.port, request_bytes(body, token=DEBUG_TOKEN))
    assert reply.headers["x-headworks-target"] == "tgt_a"
    assert reply.headers["x-headworks-attempts"] == "1"
    assert "x-headworks-decision" not in reply.headers
    reply = await send(pair.port, request_bytes(body, token=DEBUG_TOKEN, headers=asked))
    decision = json.loads(reply.headers["x-headworks-decision"])
    assert decision == pair.books.ends[-1].decision
    assert decision == {
        "at": decision["at"],
        "route": "rt_m",
        "strategy": "weighted",
        "u": 0.0,
        "facts": {"model": "m", "prompt_tokens": 24, "prompt_tokens_max": 99},
        "targets": ["tgt_a", "tgt_b"],
        "attempts": [{"target": "tgt_a", "worker": "pool_a-0", "inflight": 0}],
    }


async def test_the_models_of_a_key_are_the_routes_it_may_use(upstream: Upstream) -> None:
    pool = pool_record("a", upstream.base_url)
    routes = (
        route_record("a"),
        route_record("a", id="rt_b", name="b"),
        route_record("a", id="rt_c", name="c", is_enabled=False),
        route_record("a", id="rt_x", name="x", organisation_id="org_x"),
    )
    limited = "hw_limited.secret"
    keys = (key_record(TOKEN), key_record(limited, route_names=("m", "x", "gone")))
    async with running_gateway(configuration(pool, routes=routes, keys=keys)) as gateway:
        request = request_bytes(None, path="/v1/models", method="GET")
        reply = await send(gateway.port, request)
        assert reply.json["object"] == "list"
        assert reply.json["data"] == [
            {"id": name, "object": "model", "created": 0, "owned_by": "Water"}
            for name in ("b", "m")
        ]
        assert reply.headers["cache-control"] == "private, no-store"
        request = request_bytes(None, path="/v1/models", method="GET", token=limited)
        assert [one["id"] for one in (await send(gateway.port, request)).json["data"]] == ["m"]
        request = request_bytes(None, path="/v1/models", method="GET", token=None)
        assert (await send(gateway.port, request)).status == 401


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_liveness_asks_no_worker(gateway: Gateway, upstream: Upstream, path: str) -> None:
    for _ in range(20):
        reply = await send(gateway.port, request_bytes(None, path=path, method="GET", token=None))
        assert reply.status == 200
    assert upstream.calls == []


async def test_a_gateway_without_its_state_store_is_ready_and_says_so(gateway: Gateway) -> None:
    ready = request_bytes(None, path="/ready", method="GET", token=None)
    assert (await send(gateway.port, ready)).json == {"status": "ready", "degraded": False}
    gateway.state_store.is_up = False
    reply = await send(gateway.port, ready)
    assert (reply.status, reply.json) == (
        200,
        {"status": "ready", "degraded": True, "unreachable": ["state store"]},
    )


async def test_without_a_configuration_a_gateway_is_alive_but_not_ready() -> None:
    async with running_gateway(None) as gateway:
        health = request_bytes(None, path="/health", method="GET", token=None)
        ready = request_bytes(None, path="/ready", method="GET", token=None)
        assert (await send(gateway.port, health)).status == 200
        assert (await send(gateway.port, ready)).status == 503
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "no_capacity")


async def test_paths_and_methods_that_are_not_served_are_refused_in_shape(gateway: Gateway) -> None:
    reply = await send(gateway.port, request_bytes(b"{}", path="/v1/audio/speech"))
    assert (reply.status, reply.error["code"]) == (404, "path_not_found")
    reply = await send(gateway.port, request_bytes(None, path="/v1/chat/completions", method="GET"))
    assert (reply.status, reply.error["code"]) == (405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"
    reply = await send(gateway.port, request_bytes(None, path="/metrics", method="GET"))
    assert reply.status == 404


async def test_a_changed_address_is_used_by_the_next_request(
    gateway: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    assert (await chat(gateway.port)).status == 200
    moved = pool_record("a", other_upstream.base_url, backend=Backend.OPENAI)
    gateway.apply(replace(configuration(moved), version=8))
    for _ in range(3):
        assert (await chat(gateway.port)).status == 200
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 3)
    assert gateway.books.ends[-1].origin.version == 8

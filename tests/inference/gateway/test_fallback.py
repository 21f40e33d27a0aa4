"""Failing workers: what is tried next, for how long, and what the caller hears of it."""

import json
import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from inference.contract.kinds import ChargeKind, Outcome
from inference.contract.snapshot import ModelRecord
from tests.inference.gateway.client import BASE, chat, request_bytes, send
from tests.inference.gateway.rig import (
    CREDENTIAL,
    PRICE,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.workers.server import Peer, serving
from tests.installation import free_port
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

ROLE = 'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
HEL = 'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
LO = 'data: {"choices":[{"index":0,"delta":{"content":"lo"}}]}\n\n'
FAILED = 'data: {"error":{"message":"boom","code":502}}\n\n'
DONE = "data: [DONE]\n\n"

FAILING = [
    Behaviour(status=500),
    Behaviour(status=502, body="<html>bad gateway</html>", content_type="text/html"),
    Behaviour(status=503),
    Behaviour(status=503, body="<html>bad gateway</html>", content_type="text/html"),
    Behaviour(status=504, body=""),
    Behaviour(status=404),
    Behaviour(status=408),
    Behaviour(status=429),
    Behaviour(status=401),
    Behaviour(status=302, headers={"location": "http://127.0.0.1:1/"}),
    Behaviour(before_head="close"),
    Behaviour(before_head="reset"),
    Behaviour(body="<html>ok</html>", content_type="text/html"),
    Behaviour(body=""),
    Behaviour(body='{"error":{"message":"x","code":502}}'),
]


def unreachable() -> str:
    return f"http://127.0.0.1:{free_port()}/v1"


@pytest.mark.parametrize("behaviour", FAILING)
async def test_a_failing_target_is_replaced_by_the_next_one(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream, behaviour: Behaviour
) -> None:
    upstream.play(behaviour)
    reply = await chat(pair.port)
    assert reply.status == 200
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 1)
    end = pair.books.end
    assert (end.outcome, end.error_code) == (Outcome.OK, None)
    failed, served = end.charges
    assert (failed.attempt, failed.target_id, failed.kind) == (1, "tgt_a", ChargeKind.ESTIMATED)
    assert (served.attempt, served.target_id, served.kind) == (2, "tgt_b", ChargeKind.FINAL)
    assert failed.error_code is not None
    assert failed.cost_nanousd == 0
    assert failed.cost_max_nanousd == pair.books.openings[0].cost_max_nanousd
    assert [(one.attempt, one.target_id) for one in pair.books.openings] == [
        (1, "tgt_a"),
        (2, "tgt_b"),
    ]
    assert json.loads(other_upstream.calls[0].body or "")["model"] == "served-b"
    assert pair.inflight == 0


async def test_each_attempt_has_an_id_of_its_own_at_the_worker(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    reply = await chat(pair.port)
    told = [one.calls[0].headers["x-request-id"] for one in (upstream, other_upstream)]
    assert told == [reply.headers["x-request-id"], f"{reply.headers['x-request-id']}-2"]


async def test_a_dead_host_costs_nobody_a_request(other_upstream: Upstream) -> None:
    pools = (pool_record("a", unreachable()), pool_record("b", other_upstream.base_url))
    async with running_gateway(configuration(*pools)) as gateway:
        for _ in range(20):
            assert (await chat(gateway.port)).status == 200
        failed = gateway.books.ends[0].charges[0]
        assert (failed.error_code, failed.http_status) == ("upstream_unreachable", None)
        # nothing was sent, so nothing can be owed
        assert (failed.cost_nanousd, failed.cost_max_nanousd) == (0, 0)


async def test_a_host_that_never_answers_is_given_up_after_the_first_byte_timeout(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(before_head="hang"))
    pools = (pool_record("a", upstream.base_url), pool_record("b", other_upstream.base_url))
    route = route_record("a", "b", first_byte_timeout_ms=200)
    async with running_gateway(configuration(*pools, routes=(route,))) as gateway:
        started = time.monotonic()
        assert (await chat(gateway.port)).status == 200
        assert 0.2 <= time.monotonic() - started < 3.0
        assert gateway.books.end.charges[0].error_code == "upstream_timeout"
        await gateway.wait_for(lambda: upstream.report().calls[0].is_closed_early)


async def test_each_target_is_tried_once_and_the_last_error_is_told(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=503))
    other_upstream.play(Behaviour(status=500))
    reply = await chat(pair.port)
    assert (reply.status, reply.error["code"]) == (502, "upstream_failed")
    assert (len(upstream.calls), len(other_upstream.calls)) == (1, 1)
    assert [charge.error_code for charge in pair.books.end.charges] == [
        "upstream_saturated",
        "upstream_failed",
    ]
    assert (pair.books.end.outcome, pair.books.end.http_status) == (Outcome.ERROR, 502)


@pytest.mark.parametrize(
    ("behaviour", "hits", "status", "code"),
    [
        (Behaviour(before_head="close"), 2, 502, "upstream_closed"),
        (Behaviour(before_head="reset"), 2, 502, "upstream_closed"),
        (Behaviour(status=500), 2, 502, "upstream_failed"),
        (Behaviour(status=503), 1, 503, "upstream_saturated"),
        (Behaviour(status=429, headers={"retry-after": "9"}), 1, 503, "upstream_saturated"),
        (Behaviour(status=404), 1, 502, "upstream_model_missing"),
        (Behaviour(status=403), 1, 502, "upstream_credential"),
        (Behaviour(body="<html>", content_type="text/html"), 1, 502, "upstream_bad_answer"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_the_only_target_is_tried_again_where_that_may_help(
    gateway: Gateway,
    upstream: Upstream,
    behaviour: Behaviour,
    hits: int,
    status: int,
    code: str,
    is_stream: bool,
) -> None:
    upstream.play(behaviour)
    reply = await chat(gateway.port, stream=is_stream)
    assert (reply.status, reply.error["code"]) == (status, code)
    assert len(upstream.calls) == hits
    retry_after = {"upstream_saturated": behaviour.headers.get("retry-after", "5")}
    assert reply.headers.get("retry-after") == retry_after.get(code)
    assert b"html" not in reply.body
    assert len(gateway.books.end.charges) == hits
    assert gateway.inflight == 0


async def test_a_closed_kept_connection_does_not_count_as_the_worker_failing(
    gateway: Gateway, upstream: Upstream
) -> None:
    assert (await chat(gateway.port)).status == 200
    upstream.play(Behaviour(before_head="close"))
    reply = await chat(gateway.port)
    assert (reply.status, len(upstream.calls)) == (502, 3)
    assert len(gateway.books.ends[-1].charges) == 1


async def test_all_workers_down_is_capacity_and_not_a_missing_model() -> None:
    async with running_gateway(configuration(pool_record("a", unreachable()))) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (503, "upstream_unreachable")
        assert reply.headers["retry-after"] == "5"
        assert len(gateway.books.end.charges) == 2


async def test_the_other_workers_of_the_only_pool_are_tried(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=503))
    pool = pool_record("a", upstream.base_url, other_upstream.base_url)
    async with running_gateway(configuration(pool)) as gateway:
        assert (await chat(gateway.port)).status == 200
        assert [charge.worker_id for charge in gateway.books.end.charges] == [
            "pool_a-0",
            "pool_a-1",
        ]


async def test_the_callers_own_fault_is_told_and_tried_nowhere_else(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    error = {"message": "too long", "type": "x", "param": "messages", "code": "context_length"}
    upstream.play(Behaviour(status=400, body=json.dumps({"error": error})))
    reply = await chat(pair.port)
    assert (reply.status, reply.error) == (400, error)
    assert other_upstream.calls == []
    end = pair.books.end
    assert (end.outcome, end.http_status, end.error_code) == (
        Outcome.ERROR,
        400,
        "upstream_refused",
    )


async def test_our_credential_is_repeated_to_nobody(gateway: Gateway, upstream: Upstream) -> None:
    error = {"message": f"Incorrect API key provided: {CREDENTIAL}", "code": "x"}
    for status in (400, 401, 500):
        upstream.play(Behaviour(status=status, body=json.dumps({"error": error})))
        reply = await chat(gateway.port)
        assert CREDENTIAL not in repr(reply)
    assert CREDENTIAL not in repr(gateway.books)


async def test_an_error_before_content_is_covered_by_the_next_target(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(frames=[ROLE, FAILED, DONE], gap_ms=20))
    reply = await chat(pair.port, stream=True)
    assert reply.text == "one two three four five"
    roles = [chunk for chunk in reply.chunks if "role" in chunk["choices"][0]["delta"]]
    assert len(roles) == 1
    assert (reply.is_whole, reply.events[-1]) == (True, "[DONE]")
    failed, served = pair.books.end.charges
    assert (failed.error_code, served.error_code) == ("upstream_failed", None)
    assert (failed.target_id, served.target_id) == ("tgt_a", "tgt_b")


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_stream_cut_before_content_is_covered_too(
    pair: Gateway, upstream: Upstream, ending: str
) -> None:
    upstream.play(Behaviour(cut_after=1, ending=ending))
    reply = await chat(pair.port, stream=True)
    assert (reply.text, reply.is_whole) == ("one two three four five", True)


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_after_content_a_broken_stream_ends_in_an_error_and_is_never_begun_again(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream, ending: str
) -> None:
    other_upstream.play(Behaviour(text="Hello world"))
    upstream.play(Behaviour(frames=[ROLE, HEL, LO, DONE], cut_after=3, ending=ending, gap_ms=20))
    reply = await chat(pair.port, stream=True)
    assert (
        "".join(
            chunk["choices"][0]["delta"].get("content", "")
            for chunk in reply.chunks
            if "choices" in chunk
        )
        == "Hello"
    )
    assert json.loads(reply.events[-1])["error"]["code"] == "upstream_closed"
    assert "[DONE]" not in reply.events
    assert not reply.is_whole
    assert other_upstream.calls == []
    end = pair.books.end
    assert (end.outcome, end.http_status, end.error_code) == (
        Outcome.ERROR,
        200,
        "upstream_closed",
    )


async def test_an_error_frame_after_content_is_a_failure_though_a_mark_follows(
    gateway: Gateway, upstream: Upstream
) -> None:
    usage = '{"prompt_tokens":10,"completion_tokens":2}'
    counted = LO.replace("]}\n", f'],"usage":{usage}}}\n')
    upstream.play(Behaviour(frames=[ROLE, HEL, counted, FAILED, DONE], gap_ms=20))
    reply = await chat(gateway.port, stream=True)
    assert [json.loads(event).get("error", {}).get("code") for event in reply.events] == [
        None,
        None,
        None,
        "upstream_failed",
    ]
    assert not reply.is_whole
    end, charge = gateway.books.end, gateway.books.charge
    assert (end.outcome, end.error_code) == (Outcome.ERROR, "upstream_failed")
    assert (charge.kind, charge.usage.completion_tokens) == (ChargeKind.CUT, 2)
    assert charge.cost_nanousd == 14_000_000
    assert charge.cost_max_nanousd == gateway.books.openings[0].cost_max_nanousd


async def test_a_fallback_is_priced_by_what_served(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    pools = (
        pool_record("a", upstream.base_url),
        pool_record("b", other_upstream.base_url, model_id="mdl_b"),
    )
    dear = replace(
        PRICE,
        id="prc_b",
        model_id="mdl_b",
        input_nanousd_per_mtok=10**13,
        output_nanousd_per_mtok=2 * 10**13,
    )
    snapshot = configuration(*pools, prices=(PRICE, dear))
    snapshot = replace(
        snapshot, models={**snapshot.models, "mdl_b": ModelRecord("mdl_b", "org_a", "big")}
    )
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port)
        end = gateway.books.end
        assert end.origin.requested_model == "m"
        assert [(one.model_id, one.cost_nanousd) for one in end.charges] == [
            ("mdl_a", 0),
            ("mdl_b", 200_000_000),
        ]
        assert end.decision is not None
        assert end.decision["attempts"] == [
            {"target": "tgt_a", "worker": "pool_a-0", "inflight": 0, "error": "upstream_failed"},
            {"target": "tgt_b", "worker": "pool_b-0", "inflight": 0},
        ]


async def test_an_unpriced_target_costs_nobody_knows_what(upstream: Upstream) -> None:
    snapshot = configuration(pool_record("a", upstream.base_url), prices=())
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port)
        charge = gateway.books.charge
        assert (charge.kind, charge.price) == (ChargeKind.FINAL, None)
        assert (charge.cost_nanousd, charge.cost_max_nanousd) == (None, None)
        assert gateway.books.openings[0].cost_max_nanousd is None


async def test_an_address_that_may_not_be_called_is_not_called(upstream: Upstream) -> None:
    forbidden = pool_record("a", "http://169.254.169.254/v1")
    pools = (forbidden, pool_record("b", upstream.base_url))
    async with running_gateway(configuration(*pools)) as gateway:
        assert (await chat(gateway.port)).status == 200
        assert gateway.books.end.charges[0].error_code == "upstream_forbidden"
        gateway.apply(configuration(forbidden))
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (502, "upstream_forbidden")
        assert "169.254" not in reply.body.decode()


async def test_the_request_body_is_the_same_for_every_target(
    pair: Gateway, upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    body = json.dumps({**BASE, "x_unknown": {"a": [1, None]}, "stream": True}).encode()
    await send(pair.port, request_bytes(body))
    first, second = (json.loads(one.calls[0].body or "") for one in (upstream, other_upstream))
    assert (first.pop("model"), second.pop("model")) == ("served-a", "served-b")
    assert first == second


async def test_a_failure_is_logged_with_its_request_and_nothing_of_its_content(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500, body='{"error":{"message":"CANARY of the worker"}}'))
    messages = [{"role": "user", "content": "CANARY of the caller"}]
    with capture_logs() as logs:
        reply = await chat(gateway.port, messages=messages)
    assert logs == [
        {
            "event": "request failed",
            "log_level": "warning",
            "request_id": reply.headers["x-request-id"],
            "snapshot_version": 7,
            "route_id": "rt_m",
            "code": "upstream_failed",
            "workers": ["pool_a-0", "pool_a-0"],
            "upstream_status": 500,
        }
    ]


async def test_a_refusal_by_status_alone_does_not_wait_for_its_body(upstream: Upstream) -> None:
    async def begin_a_body(peer: Peer) -> None:
        await peer.next_request()
        await peer.send(b"HTTP/1.1 503 Busy\r\ncontent-length: 100000\r\n\r\n{")
        await peer.reader.read()

    async with serving(begin_a_body) as (busy, _):
        pools = (
            pool_record("a", f"http://127.0.0.1:{busy.port}/v1"),
            pool_record("b", upstream.base_url),
        )
        async with running_gateway(configuration(*pools)) as gateway:
            assert (await chat(gateway.port)).status == 200
            assert gateway.books.end.charges[0].error_code == "upstream_saturated"
            assert gateway.books.end.total_ms < 5_000

"""Traces from a caller through a real gateway to its workers and to a receiver of spans."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from redis.asyncio import Redis

from inference.pools.engine_metrics import ENGINE_NAMES
from tests.architecture.sources import ROOT
from tests.inference.gateway.client import BASE, Reply, request_bytes, send
from tests.inference.gateway.processes import (
    Running,
    asked_of_admin,
    counted,
    ends_in,
    have_applied,
    publish_route,
    running_parent,
)
from tests.inference.gateway.receiver import Receiver, attributes_of, running_receiver
from tests.inference.gateway.rig import CREDENTIAL, TOKEN
from tests.inference.stores import OwnStore, until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.fault

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "receivers-secret"
METRIC_ROW = re.compile(r"^\| `(headworks_\w+)` \|", re.MULTILINE)
FAMILY = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
NAME = re.compile(r"\b(?:headworks_|vllm:)\w+")
DASHBOARDS = sorted((ROOT / "docs" / "grafana").glob("*.json"))
SERIES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


async def ask(gateway: Running, headers: Mapping[str, str], **fields: object) -> Reply:
    body = json.dumps({**BASE, **fields}).encode()
    return await send(gateway.port, request_bytes(body, headers=headers))


async def test_spans_reach_their_receiver_and_every_metric_is_told_of_and_shown(
    own_store: OwnStore,
    admin: Redis,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_receiver() as receiver:
        monkeypatch.setenv("HEADWORKS_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("HEADWORKS_OTLP_HEADERS", f"x-secret={SECRET}%21")
        monkeypatch.setenv("HEADWORKS_TRACE_RATIO", "1")
        monkeypatch.setenv("HEADWORKS_TRACE_TRUST", "1")
        async with running_parent(own_store, tmp_path / "var") as gateway:
            await publish_route(admin, upstream)
            await until(lambda: have_applied(admin, 1), "both children to run on version 1")
            upstream.play(Behaviour(status=500, calls=1), Behaviour())
            unsampled = {"traceparent": f"00-{'1' * 32}-{PARENT}-00"}
            given = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=b"}
            first = await ask(gateway, given, stream=True, user="end-user-1")
            await ask(gateway, unsampled)
            fresh = await ask(gateway, {"traceparent": "junk", "tracestate": "a=b"})
            assert [first.status, fresh.status] == [200, 200]
            await until(lambda: len(receiver.spans) >= 5, "spans")
            check_spans(receiver.spans[:3], first, upstream)
            check_begun(receiver.spans[3:], fresh, upstream)
            check_message(receiver)
            await check_decisions(admin)
            metrics = (await asked_of_admin(gateway, "/metrics")).body
            assert counted(metrics, "headworks_gateway_spans_sent_total") == 5
            assert counted(metrics, "headworks_gateway_spans_dropped_total") == 0
            check_documents(metrics.decode())


def check_spans(spans: list[Span], reply: Reply, upstream: Upstream) -> None:
    """A caller's trace: its request, the attempt that failed, and the one that answered."""
    request, failed, answered = spans
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert {span.trace_state for span in spans} == {"a=b"}
    assert request.parent_span_id.hex() == PARENT
    assert {failed.parent_span_id, answered.parent_span_id} == {request.span_id}
    assert [span.kind for span in spans] == [Span.SPAN_KIND_SERVER, *[Span.SPAN_KIND_CLIENT] * 2]
    sent = [call.headers["traceparent"] for call in upstream.calls[:2]]
    assert sent == [f"00-{TRACE}-{span.span_id.hex()}-01" for span in (failed, answered)]
    assert [call.headers["tracestate"] for call in upstream.calls[:2]] == ["a=b", "a=b"]
    told = attributes_of(request)
    assert told == told | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "served-a",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "http.response.status_code": 200,
        "headworks.request_id": reply.headers["x-request-id"],
        "headworks.route": "rt_a",
        "headworks.target": "tgt_a",
        "headworks.attempts": 2,
        "headworks.outcome": "ok",
    }
    assert "error.type" not in told
    assert [event.name for event in request.events] == ["headworks.first_token"]
    first_ns = request.events[0].time_unix_nano
    assert request.start_time_unix_nano < first_ns <= request.end_time_unix_nano
    failure = attributes_of(failed)
    assert failure == failure | {
        "error.type": "upstream_failed",
        "http.response.status_code": 500,
        "headworks.attempt": 1,
    }
    assert (failed.status.code, answered.status.code) == (Status.STATUS_CODE_ERROR, 0)
    assert not failed.events
    success = attributes_of(answered)
    assert success == success | {
        "gen_ai.provider.name": "vllm",
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
        "headworks.attempt": 2,
        "headworks.pool": "pool_a",
        "gen_ai.usage.output_tokens": 5,
    }


def check_begun(spans: list[Span], reply: Reply, upstream: Upstream) -> None:
    """A trace of our own, and nothing of what the caller sent in the place of one."""
    request, attempt = spans
    assert request.parent_span_id == b""
    assert attempt.parent_span_id == request.span_id
    assert attributes_of(request)["headworks.request_id"] == reply.headers["x-request-id"]
    passed_on, begun = upstream.calls[2:]
    assert passed_on.headers["traceparent"] == f"00-{'1' * 32}-{PARENT}-00"
    ids = f"{request.trace_id.hex()}-{attempt.span_id.hex()}"
    assert begun.headers["traceparent"] == f"00-{ids}-03"
    assert "tracestate" not in begun.headers


def check_message(receiver: Receiver) -> None:
    """Where and as whom it was sent, and that nothing secret is in it."""
    assert set(receiver.paths) == {"POST /v1/traces HTTP/1.1"}
    assert {one["x-secret"] for one in receiver.headers} == {f"{SECRET}!"}
    assert {one["content-type"] for one in receiver.headers} == {"application/x-protobuf"}
    resource = receiver.messages[0].resource_spans[0].resource
    assert {pair.key: pair.value.string_value for pair in resource.attributes}[
        "service.instance.id"
    ] in ("gw-1/0", "gw-1/1")
    sent = b"".join(receiver.bodies)
    for secret in (TOKEN, CREDENTIAL, SECRET, "ping", "end-user-1", "one two"):
        assert secret.encode() not in sent


async def check_decisions(admin: Redis) -> None:
    """The trace of each request is in what is kept of it."""

    async def are_there() -> bool:
        return len(await ends_in(admin)) == 3

    await until(are_there, "the ends in the stream")
    kept: list[Any] = [(end.decision or {})["trace_id"] for end in await ends_in(admin)]
    assert {TRACE, "1" * 32} < set(kept)
    assert all(re.fullmatch("[0-9a-f]{32}", trace_id) for trace_id in kept)


def check_documents(metrics: str) -> None:
    """The table of metrics is that of the code, and dashboards show nothing else."""
    families = dict(FAMILY.findall(metrics))
    told = set(METRIC_ROW.findall((ROOT / "docs" / "operating.md").read_text()))
    assert told == set(families)
    counters = {name for name, kind in families.items() if kind == "counter"}
    assert {name for name in families if name.endswith("_total")} == counters
    series = {name + end for name, kind in families.items() for end in SERIES[kind]}
    # control.json shows what the control plane serves: tests/controlplane/test_metrics.py
    mine = [one for one in DASHBOARDS if one.stem != "control"]
    assert [one.stem for one in mine] == ["gateway", "pools"]
    for path in mine:
        shown = names_in(json.loads(path.read_text()))
        assert shown - series - ENGINE_NAMES == set(), path.name
        assert len(shown) > 5


def names_in(dashboard: Any) -> set[str]:
    """The names in a dashboard's queries; each of its panels has one, and an id of its own."""
    panels = [one for one in dashboard["panels"] if one["type"] != "row"]
    assert len({one["id"] for one in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(one["title"] and one["targets"] for one in panels)
    queries = [target["expr"] for one in panels for target in one["targets"]]
    queries += [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    assert {one["datasource"]["uid"] for one in panels} == {"${datasource}"}
    return {name for query in queries for name in NAME.findall(query)}

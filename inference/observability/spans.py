"""Finished requests as OpenTelemetry spans in OTLP's protobuf form.

Names follow the semantic conventions for generative AI and HTTP; ours begin with `headworks.`.
Nothing of what callers wrote or were answered is in them but the model's name as the event has it,
and no key, header or tag. Times are nanoseconds since the epoch.
"""

from collections.abc import Iterator, Mapping

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from inference.contract.events import Charge, End, Usage
from inference.contract.kinds import Endpoint, Outcome
from inference.observability.trace_context import QUEUE_SPAN, Traced

Value = str | int | float | bool | None
Attributes = Mapping[str, Value]

SERVICE = "headworks-gateway"
SCOPE = "headworks"
FIRST_TOKEN = "headworks.first_token"

_OPERATIONS: Mapping[Endpoint, str] = {
    **{endpoint: endpoint.value for endpoint in Endpoint},
    Endpoint.COMPLETIONS: "text_completion",
    Endpoint.RESPONSES: "chat",
    Endpoint.MESSAGES: "chat",
}
_NS_A_MS = 1_000_000
_INT_MOST = 2**63 - 1
_SAMPLED, _PARENT_IS_KNOWN, _PARENT_IS_REMOTE = 0x001, 0x100, 0x200


class SpanEncoder:
    """Collects spans for one message after another. `process` is who sends them."""

    def __init__(self, process: str) -> None:
        gateway, _, _ = process.rpartition("/")
        self._resource = Resource(
            attributes=_pairs(
                {
                    "service.name": SERVICE,
                    "service.instance.id": process,
                    "headworks.gateway": gateway,
                }
            )
        )
        self._spans: list[Span] = []

    def add(self, traced: Traced) -> None:
        """Put a request's spans into the next message, all or none."""
        self._spans += [*_spans_of(traced)]

    def take(self) -> bytes:
        """The message; the next one begins empty."""
        spans, self._spans = self._spans, []
        scope = ScopeSpans(scope=InstrumentationScope(name=SCOPE), spans=spans)
        whole = ResourceSpans(resource=self._resource, scope_spans=[scope])
        return bytes(ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString())

    def refused_in(self, answer: bytes) -> int:
        """How many spans a receiver that took the message says it has not taken."""
        try:
            told = ExportTraceServiceResponse.FromString(answer)
        except DecodeError:
            return 0  # some answer in words or in JSON; the status says that it took the message
        return int(told.partial_success.rejected_spans)


def _spans_of(traced: Traced) -> Iterator[Span]:
    """The request's own span, that of its wait if it waited, and one an attempt."""
    end = traced.end
    yield _request_span(traced)
    if end.queued_ms is not None:
        yield _queue_span(traced, end.queued_ms)
    for charge in end.charges:
        yield _attempt_span(traced, charge)


def _request_span(traced: Traced) -> Span:
    end, trace = traced.end, traced.trace
    last = end.charges[-1] if end.charges else None
    server = None if last is None else traced.servers.get(last.attempt)
    span = _span(traced, 0, parent_id=trace.parent_id, kind=Span.SPAN_KIND_SERVER)
    operation, origin = _OPERATIONS[end.origin.endpoint], end.origin
    span.name = f"{operation} {origin.route_name}" if origin.route_name else operation
    if trace.parent_id:
        span.flags |= _PARENT_IS_REMOTE
    _set_time(span, end.received_at_ms, end.total_ms)
    span.attributes.extend(
        _pairs(
            {
                "gen_ai.operation.name": operation,
                "gen_ai.request.model": origin.requested_model or None,
                "gen_ai.response.model": None if server is None else server.model,
                "http.response.status_code": end.http_status,
                "error.type": end.error_code,
                **_usage_attributes(None if last is None else last.usage),
                **_request_attributes(end),
            }
        )
    )
    if end.first_token_ms is not None:
        _add_first_token(span, end.first_token_ms)
    if end.outcome is Outcome.ERROR or end.http_status >= 500:
        span.status.code = Status.STATUS_CODE_ERROR
    return span


def _request_attributes(end: End) -> Attributes:
    """What only this gateway knows of a request."""
    origin = end.origin
    return {
        "headworks.request_id": end.event_id,
        "headworks.outcome": end.outcome.value,
        "headworks.organisation": origin.organisation_id,
        "headworks.route": origin.route_id,
        "headworks.rule": origin.rule_id,
        "headworks.target": end.charges[-1].target_id if end.charges else None,
        "headworks.attempts": len(end.charges),
        "headworks.stream": origin.is_stream,
        "headworks.queue_wait_ms": end.queued_ms,
        "headworks.configuration_version": origin.version,
    }


def _queue_span(traced: Traced, queued_ms: float) -> Span:
    """The wait, which ended when the first attempt began, or with the request if none did."""
    end = traced.end
    until_ms = end.received_at_ms + end.total_ms
    if end.charges:
        until_ms = min(charge.started_at_ms for charge in end.charges)
    span = _span(traced, QUEUE_SPAN, parent_id=traced.trace.span_id(), kind=Span.SPAN_KIND_INTERNAL)
    span.name = "queue"
    begun_ms = max(until_ms - queued_ms, float(end.received_at_ms))
    _set_time(span, begun_ms, max(until_ms - begun_ms, 0.0))
    span.attributes.extend(_pairs({"headworks.route": end.origin.route_id}))
    return span


def _attempt_span(traced: Traced, charge: Charge) -> Span:
    end, server = traced.end, traced.servers.get(charge.attempt)
    parent_id = traced.trace.span_id()
    span = _span(traced, charge.attempt, parent_id=parent_id, kind=Span.SPAN_KIND_CLIENT)
    operation = _OPERATIONS[end.origin.endpoint]
    host, port = (None, None) if server is None else _host_and_port(server.address)
    span.name = operation if server is None else f"{operation} {server.model}"
    _set_time(span, charge.started_at_ms, charge.duration_ms)
    span.attributes.extend(
        _pairs(
            {
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": None if server is None else server.provider,
                "gen_ai.system": None if server is None else server.provider,
                "gen_ai.request.model": None if server is None else server.model,
                "gen_ai.response.model": None if server is None else server.model,
                "server.address": host,
                "server.port": port,
                "http.response.status_code": charge.http_status,
                "error.type": charge.error_code,
                **_usage_attributes(charge.usage),
                "headworks.attempt": charge.attempt,
                "headworks.target": charge.target_id,
                "headworks.pool": charge.pool_id,
                "headworks.worker": charge.worker_id,
            }
        )
    )
    if charge.first_token_ms is not None:
        _add_first_token(span, charge.first_token_ms)
    if charge.error_code is not None:
        span.status.code = Status.STATUS_CODE_ERROR
    return span


def _usage_attributes(usage: Usage | None) -> Attributes:
    """Tokens as far as they are known: what isn't is left out, not 0."""
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "headworks.cached_tokens": usage.cached_tokens,
    }


def _span(traced: Traced, number: int, *, parent_id: str, kind: Span.SpanKind.ValueType) -> Span:
    trace = traced.trace
    return Span(
        trace_id=bytes.fromhex(trace.trace_id),
        span_id=bytes.fromhex(trace.span_id(number)),
        parent_span_id=bytes.fromhex(parent_id),
        trace_state=trace.state,
        flags=_SAMPLED | _PARENT_IS_KNOWN,
        kind=kind,
    )


def _set_time(span: Span, at_ms: float, duration_ms: float) -> None:
    span.start_time_unix_nano = round(at_ms * _NS_A_MS)
    span.end_time_unix_nano = span.start_time_unix_nano + round(duration_ms * _NS_A_MS)


def _add_first_token(span: Span, after_ms: float) -> None:
    at_ns = span.start_time_unix_nano + round(after_ms * _NS_A_MS)
    span.events.add(name=FIRST_TOKEN, time_unix_nano=at_ns)


def _host_and_port(address: str) -> tuple[str, int | None]:
    """Both of a `Host` header's value, which names no port that is its scheme's own."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        return host.strip("[]"), int(port)
    return address.strip("[]"), None


def _pairs(attributes: Attributes) -> list[KeyValue]:
    """Attributes in OTLP's form; what is None is left out."""
    return [
        KeyValue(key=name, value=_any(value))
        for name, value in attributes.items()
        if value is not None
    ]


def _any(value: str | int | float | bool) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=max(-_INT_MOST, min(value, _INT_MOST)))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)

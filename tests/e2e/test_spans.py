"""A real engine's spans belong to the trace of the request, and to the attempt that asked it."""

import secrets
from pathlib import Path

import openai
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.conftest import RECEIVERS_SECRET
from tests.inference.gateway.receiver import Receiver, attributes_of
from tests.installation import Installation, wait_until

pytestmark = pytest.mark.engine

ENGINE, GATEWAY = "vllm", "headworks-gateway"
SERVER = "vllm.entrypoints.openai.api_server"


def spans_of(receiver: Receiver) -> list[tuple[str, Span, dict[str, str]]]:
    """Every span with the service that sent it and the headers it was sent with."""
    found = []
    for message, headers in zip(receiver.messages, list(receiver.headers), strict=False):
        for resource in message.resource_spans:
            names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                found += [(names["service.name"], span, headers) for span in scope.spans]
    return found


def ask(client: openai.OpenAI, traceparent: str | None) -> openai.types.CompletionUsage:
    """Ask for a short answer, as part of this trace; what the engine counted."""
    answer = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "hi"}],
        max_tokens=3,
        extra_headers={} if traceparent is None else {"traceparent": traceparent},
    )
    assert answer.usage is not None
    return answer.usage


def test_an_engines_span_is_a_child_of_the_attempt_that_asked_it(
    installation: Installation, client: openai.OpenAI, receiver: Receiver
) -> None:
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    ask(client, f"00-{secrets.token_hex(16)}-{parent}-00")
    ask(client, None)
    usage = ask(client, f"00-{trace}-{parent}-01")

    def both() -> bool:
        return {name for name, _, _ in spans_of(receiver)} == {ENGINE, GATEWAY}

    wait_until(both, 30, "spans of the gateway and of the engine")
    found = spans_of(receiver)
    assert {span.trace_id.hex() for _, span, _ in found} == {trace}
    spans = {span.span_id: span for name, span, _ in found if name == GATEWAY}
    (request,) = [span for span in spans.values() if span.parent_span_id.hex() == parent]
    (attempt,) = [span for span in spans.values() if span.parent_span_id == request.span_id]
    of_engine = [span for name, span, _ in found if name == ENGINE]
    (answered,) = [span for span in of_engine if span.parent_span_id == attempt.span_id]
    told = attributes_of(answered)
    assert told["gen_ai.usage.completion_tokens"] == usage.completion_tokens
    assert told["gen_ai.usage.prompt_tokens"] == usage.prompt_tokens
    # of the receiver's secret only gateways know
    keys = {name: headers.get("x-key") for name, _, headers in found}
    assert keys == {GATEWAY: RECEIVERS_SECRET, ENGINE: None}
    secret = RECEIVERS_SECRET.encode()
    pools = installation.find("inference pools")
    for pid in [*pools, *installation.find(SERVER), *installation.find("multiprocessing")]:
        assert secret not in Path(f"/proc/{pid}/environ").read_bytes()
    logs = [one for one in (installation.var / "logs").rglob("*") if one.is_file()]
    assert [one for one in logs if secret in one.read_bytes()] == []

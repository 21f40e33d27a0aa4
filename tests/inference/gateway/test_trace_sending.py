"""Spans on their way: a receiver that is unwilling or gone costs spans, counted, and no more."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from inference.contract.events import Charge, End, Origin, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome
from inference.decisions.egress import is_forbidden_endpoint
from inference.gateway.headers import read_headers
from inference.gateway.trace_sending import TRIES, Receiver, TraceSender
from inference.gateway.tracing import Tracer
from inference.observability.spans import SpanEncoder
from inference.observability.trace_metrics import TraceMetrics
from inference.workers.connections import Connections
from tests.inference.gateway.receiver import attributes_of, running_receiver
from tests.inference.gateway.rig import until
from tests.installation import free_port

pytestmark = pytest.mark.slow

ORIGIN = Origin(
    "org_a", "team_a", "proj_a", "key", Endpoint.CHAT, "m", False, "gw-1/0", "L1", 1, "rt_a", "m"
)
CHARGE = Charge(
    1, "tgt_a", "pool_a", "mdl_a", "w1", ChargeKind.FINAL, Usage(10, 5, 8), 1_500, 400.0
)
END = End("req_1", 2_000, 1_000, ORIGIN, Outcome.OK, 200, (CHARGE,), 1_000.0, queued_ms=400.0)
SPANS = 3


class Rig:
    """A tracer and what sends its spans, with a queue of four requests."""

    def __init__(self, url: str, own_ports: frozenset[int] = frozenset()) -> None:
        self.registry, self.chance = CollectorRegistry(), 0.5
        metrics = TraceMetrics(self.registry)
        self.tracer = Tracer(
            metrics,
            ratio=1.0,
            trusts_caller=False,
            random_bits=random.getrandbits,
            queue_length=4,
        )
        connections = Connections(
            is_forbidden=lambda ip, port: is_forbidden_endpoint(ip, port, own_ports)
        )
        self.sender = TraceSender(
            self.tracer.queue,
            encoder=SpanEncoder("gw-1/0"),
            receiver=Receiver(f"{url}/v1/traces", header_lines=b"", connections=connections),
            metrics=metrics,
            chance=lambda: self.chance,
            first_pause_s=0.001,
        )

    def end(self, requests: int, end: End = END) -> None:
        for _ in range(requests):
            trace = self.tracer.begin(read_headers(()))
            self.tracer.ended(trace, end, ())

    def sent(self) -> float | None:
        return self.registry.get_sample_value("headworks_gateway_spans_sent_total")

    def dropped(self, reason: str) -> float | None:
        name = "headworks_gateway_spans_dropped_total"
        return self.registry.get_sample_value(name, {"reason": reason})


@asynccontextmanager
async def sending(url: str, own_ports: frozenset[int] = frozenset()) -> AsyncIterator[Rig]:
    rig = Rig(url, own_ports)
    task = asyncio.create_task(rig.sender.run())
    try:
        yield rig
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_finds_the_queue_full_is_dropped_and_counted() -> None:
    async with running_receiver() as receiver, sending(receiver.url) as rig:
        rig.end(6)
        assert rig.dropped("queue_full") == 2 * SPANS
        await until(lambda: rig.sent() == 4 * SPANS, 5)
        assert len(receiver.spans) == 4 * SPANS


async def test_a_wait_is_a_span_that_ends_when_the_attempt_begins() -> None:
    async with running_receiver() as receiver, sending(receiver.url) as rig:
        rig.end(1)
        await until(lambda: receiver.spans, 5)
        request, queue, attempt = receiver.spans
        assert (request.name, queue.name) == ("chat m", "queue")
        assert queue.parent_span_id == attempt.parent_span_id == request.span_id
        assert queue.end_time_unix_nano == attempt.start_time_unix_nano == 1_500_000_000
        assert queue.start_time_unix_nano == 1_100_000_000
        told = attributes_of(request)
        assert (told["headworks.queue_wait_ms"], told["headworks.cached_tokens"]) == (400.0, 8)


async def test_a_receiver_that_asks_for_patience_gets_the_same_again() -> None:
    async with running_receiver() as receiver:
        receiver.statuses = [503, 429]
        async with sending(receiver.url) as rig:
            rig.end(1)
            await until(lambda: rig.sent() == SPANS, 5)
            assert receiver.statuses == []
            assert len(receiver.spans) == SPANS


async def test_what_a_receiver_refuses_is_not_sent_again() -> None:
    async with running_receiver() as receiver:
        receiver.statuses = [400]
        async with sending(receiver.url) as rig:
            rig.end(1)
            await until(lambda: rig.dropped("refused") == SPANS, 5)
            receiver.rejects = 2
            rig.end(1)
            await until(lambda: rig.dropped("refused") == SPANS + 2, 5)
            assert rig.sent() == SPANS - 2


async def test_a_dead_receiver_costs_the_spans_and_one_on_our_own_ports_is_never_called() -> None:
    async with sending(f"http://127.0.0.1:{free_port()}") as rig:
        rig.end(1)
        await until(lambda: rig.dropped("unreachable") == SPANS, 5)
    async with running_receiver() as receiver:
        async with sending(receiver.url, frozenset({receiver.port})) as rig:
            rig.end(1)
            await until(lambda: rig.dropped("unreachable") == SPANS, 5)
        receiver.statuses = [503] * TRIES
        async with sending(receiver.url) as rig:
            rig.end(1)
            await until(lambda: rig.dropped("unreachable") == SPANS, 5)
        assert receiver.spans == []


async def test_what_is_left_at_a_stop_is_sent_once_more() -> None:
    async with running_receiver() as receiver:
        async with sending(receiver.url) as rig:
            await asyncio.sleep(0)
            rig.end(2)
        assert len(receiver.spans) == 2 * SPANS


async def test_an_error_of_ours_costs_the_spans_it_is_in_and_no_others() -> None:
    async with running_receiver() as receiver, sending(receiver.url) as rig:
        rig.end(1, replace(END, charges=(replace(CHARGE, pool_id="\udc80"),)))
        rig.end(1)
        await until(lambda: rig.sent() == SPANS, 5)
        assert rig.dropped("failed") == SPANS
        assert len(receiver.spans) == SPANS
        receiver.statuses, rig.chance = [503], "none"  # type: ignore[assignment]
        rig.end(1)
        await until(lambda: rig.dropped("failed") == 2 * SPANS, 5)
        rig.end(1)
        await until(lambda: rig.sent() == 2 * SPANS, 5)

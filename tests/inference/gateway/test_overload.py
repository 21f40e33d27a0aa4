"""Twice what the workers can take, for seconds: who is served, who is sent away, what is left."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from itertools import cycle, islice

import pytest

from inference.contract.events import End
from inference.contract.kinds import Outcome, PriorityClass
from tests.inference.gateway.client import BASE, request_bytes, send
from tests.inference.gateway.rig import (
    configuration,
    key_record,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

SLOTS, SERVICE_MS = 4, 50
CAPACITY_RPS = SLOTS * 1_000 / SERVICE_MS
LASTS_S = 2.5
OBJECTIVE_MS = 400.0
"""What the 95th of a hundred interactive requests may wait: eight services."""

TOKENS = {
    name: f"hw_{name.ljust(26, '0')}.secret-of-{name}" for name in ("person", "loud", "quiet")
}
KEYS = (
    key_record(TOKENS["person"], priority=PriorityClass.INTERACTIVE),
    key_record(TOKENS["loud"], priority=PriorityClass.BATCH, team_id="team_loud"),
    key_record(TOKENS["quiet"], priority=PriorityClass.BATCH, team_id="team_quiet"),
)
MIX = ("person", "loud", "loud", "loud", "quiet", "person", "loud", "loud")
"""A quarter is interactive, half the capacity; of the batch nine tenths are one team's."""


async def arrivals(rate_rps: float, lasts_s: float) -> AsyncIterator[str]:
    """Who asks next, at an even pace, whatever becomes of those before."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, name in enumerate(islice(cycle(MIX), int(rate_rps * lasts_s))):
        await asyncio.sleep(max(began + number / rate_rps - loop.time(), 0))
        yield name


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]


def by_key(ends: list[End], outcome: Outcome) -> Counter[str]:
    names = {token[3:29]: name for name, token in TOKENS.items()}
    return Counter(names[one.origin.key_id] for one in ends if one.outcome is outcome)


async def test_at_twice_the_load_people_wait_little_batch_is_shed_and_nobody_starves(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(delay_ms=SERVICE_MS, text="ok"))
    pool = pool_record("a", upstream.base_url, worker_concurrency=SLOTS)
    route = route_record("a", max_queued=24, max_queue_wait_ms=1_000)
    async with running_gateway(configuration(pool, routes=(route,), keys=KEYS)) as gateway:
        calls = []
        async for name in arrivals(2 * CAPACITY_RPS, LASTS_S):
            request = request_bytes(json.dumps(BASE).encode(), token=TOKENS[name])
            calls.append(asyncio.create_task(send(gateway.port, request)))
        replies = [await call for call in calls]
        await gateway.wait_ended(len(calls))
        ends = gateway.books.ends
        served, refused = by_key(ends, Outcome.OK), by_key(ends, Outcome.REFUSED)

        assert refused["person"] == 0
        waits = [one.queued_ms or 0.0 for one in ends if one.origin.team_id == "team_a"]
        assert percentile(waits, 0.95) < OBJECTIVE_MS
        assert refused["loud"] > served["loud"] > 0
        shares = {one: served[one] / (served[one] + refused[one]) for one in ("loud", "quiet")}
        assert shares["quiet"] > 2 * shares["loud"]
        assert {one.status for one in replies} == {200, 503}
        told = [int(one.headers["retry-after"]) for one in replies if one.status == 503]
        assert all(1 <= wait <= 5 for wait in told)
        assert len(upstream.calls) == sum(served.values())

        waiting = gateway.waiting
        assert (waiting.waiting, waiting.held_bytes, waiting.depths()) == (0, 0, {})
        (worker,) = gateway.fleet.ready("pool_a")
        assert (worker.inflight, worker.promised, worker.prefill_tokens) == (0, 0, 0)
        assert gateway.metric("inflight") == 0

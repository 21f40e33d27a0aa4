"""Explain against the live path, degraded and within limits: a thousand requests, equal records."""

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import (
    DegradationStep,
    Endpoint,
)
from inference.contract.snapshot import (
    ConfigSnapshot,
)
from inference.decisions.degradation.ladder import Ladder
from inference.decisions.explain import Case, Explanation, explain
from inference.decisions.facts import RequestFacts
from inference.decisions.limiting import BudgetVerdict
from inference.decisions.plan import Plan, Refusal, plan_request
from inference.errors import (
    BudgetExceeded,
    GatewayError,
    NoCapacity,
    QueueFull,
    RateLimitExceeded,
    RequestShed,
)
from inference.gateway.admission import next_within_limits, with_bound
from inference.gateway.attempts import Moment
from inference.gateway.dispatch import Prompt
from inference.gateway.easing import admitted
from inference.gateway.exchange import Exchange
from inference.gateway.schemas import parse_request
from inference.gateway.turns import degrade
from inference.limits.leases import Leases
from inference.limits.limiter import Limiter
from inference.observability.limit_metrics import LimitMetrics
from inference.observability.metrics import GatewayMetrics
from inference.queues.ladders import Ladders
from inference.queues.room import WaitingRoom
from inference.workers.connections import Connections
from inference.workers.registry import OFFERS
from tests.decisions.fleets import KEY
from tests.inference.gateway.explained_limits import Limits, limited
from tests.inference.gateway.test_explained import (
    NOW,
    NOW_S,
    PROMPTS,
    World,
    described,
    hits_of,
    some_facts,
    some_world,
    stir,
)
from tests.inference.limits.conftest import store
from tests.inference.limits.rig import running
from tests.inference.stores import OwnStore, until

__all__ = ["store"]

pytestmark = pytest.mark.slow

WORLDS, REQUESTS = 100, 10
PATIENT_S = 60.0
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}'


class Asked(Exchange):
    """One request on its way through the pipeline, from its plan to its first attempt."""

    def __init__(self, services: Any, snapshot: ConfigSnapshot, plan: Plan, prompt: bytes) -> None:
        self.services, self.snapshot, self.plan = services, snapshot, plan
        self.arrived = Moment(int(NOW * 1000), NOW_S)
        self.endpoint, self.identity, self.facts = Endpoint.CHAT, KEY, plan.facts
        self.event_id, self.attempts, self.admission = "req", [], None
        self.is_out_of_retries, self.tokens_not_generated, self.trace = False, None, None
        self.request = parse_request(Endpoint.CHAT, BODY)
        self._prompt = Prompt(lambda: prompt, tokens=len(prompt) // 4)

    async def go(self) -> GatewayError | None:
        """As `pipeline.run` does it; the error it ends with, if it isn't sent."""
        plan = self.plan
        assert plan is not None
        assert self.request is not None
        try:
            if self.limit(plan) is not None:
                plan = await admitted(self, plan)
            plan = degrade(self, plan)
            with_bound(self, plan, self.request)
            if self.admission is None:
                attempt = await self.next_attempt(plan, ())
            else:
                attempt = await next_within_limits(self, self.admission, plan, ())
            if attempt is None:
                raise NoCapacity
        except GatewayError as error:
            return error
        return None

    def record(self) -> dict[str, object]:
        """What the books would hold; how long it looked for a worker is nobody's decision."""
        told = self.decision()
        assert told is not None
        told.pop("queued_ms", None)
        return told

    def let_go(self) -> None:
        """Leave everything as it was found."""
        for one in self.attempts:
            one.end(NOW_S)
        if self.admission is not None:
            self.admission.undo()


@asynccontextmanager
async def process(store: OwnStore) -> AsyncIterator[Leases]:
    # a store that is well must not count as away, however slow this machine is
    async with running(store, "aa", wait_s=PATIENT_S, patience_s=PATIENT_S) as one:
        yield one.leases


def services_of(world: World, snapshot: ConfigSnapshot, leases: Leases, taken: int) -> Any:
    """The parts of a gateway that have a say, at a moment that stands still."""
    metrics = GatewayMetrics(CollectorRegistry())
    registry = world.registry
    waiting = WaitingRoom(registry, metrics=metrics.queue, stopwatch=lambda: NOW_S)
    ladders = Ladders(
        registry, queued=waiting.queued, snapshot=lambda: snapshot, clock=lambda: NOW_S
    )
    ladders._ladders = {"rt_m": Ladder(taken)}
    limiter = Limiter(leases, LimitMetrics(CollectorRegistry()), stopwatch=time.perf_counter)
    limiter.apply_snapshot(snapshot)
    return SimpleNamespace(
        dispatcher=world.dispatcher,
        limiter=limiter,
        ladders=ladders,
        waiting=waiting,
        metrics=metrics,
        snapshots=SimpleNamespace(current=snapshot),
        clock=lambda: NOW,
        stopwatch=lambda: NOW_S,
        chance=lambda: world.chances[-1],
    )


def kind_of(explained: Explanation, error: GatewayError | None) -> str:
    """Which way a request went; fails unless both say the same of how it ended."""
    if isinstance(explained.refused_by, BudgetVerdict):
        assert isinstance(error, BudgetExceeded)
        assert explained.refused_by.account.budget.name in str(error)
        return "over a model's budget" if explained.passed_over else "over budget"
    if explained.refused_by is not None:
        assert isinstance(error, RateLimitExceeded)
        assert explained.refused_by.bearing.limit.name in str(error)
        return "refused by a model" if explained.passed_over else "refused by a limit"
    if explained.is_shed:
        assert isinstance(error, RequestShed)
        return "shed"
    if explained.choice is None:
        assert isinstance(error, QueueFull if explained.waits else NoCapacity)
        return "waits" if explained.waits else "nobody"
    assert error is None
    return "passed over" if explained.passed_over else "sent"


async def test_explain_and_the_live_path_agree_under_limits_and_degradation(
    store: OwnStore, admin: Redis
) -> None:
    chance, seen, eased = Random(12), dict[str, int](), Counter[str]()
    connections = Connections(is_forbidden=lambda _ip, _port: False)
    async with process(store) as leases:
        await admin.set(wire.BUDGETS_SEEDED, await admin.get(wire.LIMITS_EPOCH))
        await until(lambda: leases.has_budgets, "the budgets")
        for number in range(WORLDS):
            world = some_world(chance, connections)
            stir(world, chance)
            limits = await Limits.used(leases, chance, f"{number}")
            snapshot = limited(world, limits.records, limits.budgets, chance)
            taken = chance.randint(0, len(snapshot.routes["org_a", "m"].degradation))
            services = services_of(world, snapshot, leases, taken)
            for _ in range(REQUESTS):
                prompt = chance.choice(PROMPTS)
                facts = replace(some_facts(chance, prompt), model="m")
                kind, told = await compared(
                    world, snapshot, services, limits, facts, prompt, taken, chance
                )
                seen[kind] = seen.get(kind, 0) + 1
                eased.update(name for name in ("cheaper", "lowered") if name in told)
    assert sum(seen.values()) == WORLDS * REQUESTS, seen
    # every road was walked, most of them often; that nobody is there is rare under limits, and
    # `test_explained` walks it
    assert seen.keys() - {"nobody"} == {
        *("refused a plan", "refused by a limit", "refused by a model", "shed"),
        *("over budget", "over a model's budget"),
        *("waits", "passed over", "sent"),
    }
    assert min(seen.values()) >= 1, seen
    assert min(eased["cheaper"], eased["lowered"]) >= 3, eased


async def compared(
    world: World,
    snapshot: ConfigSnapshot,
    services: Any,
    limits: Limits,
    facts: RequestFacts,
    prompt: bytes,
    taken: int,
    chance: Random,
) -> tuple[str, str]:
    """Ask both about one request; the way it went, and what it says of budgets."""
    plan_u, worker_u = chance.random(), chance.random()
    world.chances.append(worker_u)
    explained = explain(
        Case(
            snapshot=snapshot,
            identity=KEY,
            facts=facts,
            fleet=described(world),
            now=NOW,
            plan_u=plan_u,
            worker_u=worker_u,
            hits=hits_of(world, prompt),
            offers=OFFERS,
            steps={"rt_m": taken},
            left=limits.left,
            budgets_left=limits.budgets_left,
        ),
        draws=4,
    )
    plan = plan_request(snapshot, KEY, request=facts, now=NOW, u=plan_u, offers=OFFERS)
    if isinstance(plan, Refusal):
        assert (explained.decided, explained.record) == (plan, None)
        return "refused a plan", ""
    asked = Asked(services, snapshot, plan, prompt)
    try:
        error = await asked.go()
        kind = kind_of(explained, error)
        assert asked.record() == explained.record
        assert [DegradationStep(one) for one in asked.degraded] == [*explained.degraded]
        told = {one.bearing.limit.id: one.stake for one in explained.limits}
        if asked.admission is not None:
            for counted in asked.admission._known.counted:
                claim = counted.claim(asked.admission._bounds)
                stake = told[counted.limit.id]
                assert (claim.floor, claim.take) == (stake.floor, stake.take)
            over = {one.account: one.stake for one in explained.budgets}
            for purse in asked.admission._known.purses:
                wanted, budget_stake = purse.claim(asked.admission._bounds), over[purse.account]
                assert (wanted is None) is (budget_stake is None)
                if wanted is not None and budget_stake is not None:
                    assert (wanted.floor, wanted.take) == (budget_stake.floor, budget_stake.take)
    finally:
        asked.let_go()
    return kind, str((explained.record or {}).get("budgets"))

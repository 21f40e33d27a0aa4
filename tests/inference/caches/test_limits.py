"""A hit counts as a request, takes no tokens and no money, and is served when money is out."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import (
    BudgetPeriod,
    BudgetSubject,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
)
from inference.contract.snapshot import BudgetRecord, BudgetScope, CachePolicyRecord, LimitRecord
from tests.inference.caches.rig import POLICY, Clock, cached_configuration, make_caches
from tests.inference.caches.test_exact import ask, cache
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import Gateway, pool_record, running_gateway
from tests.inference.limits.rig import SEEDED
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

REQUESTS = LimitRecord(
    "lim_r", "org_a", "requests", LimitSubject.KEY, LimitUnit.REQUESTS, 2, window=LimitWindow.DAY
)
TOKENS = replace(
    REQUESTS,
    id="lim_t",
    unit=LimitUnit.TOTAL_TOKENS,
    amount=300,
    enforcement=Enforcement.STRICT,
)
PARALLEL = LimitRecord("lim_p", "org_a", "at once", LimitSubject.KEY, LimitUnit.PARALLEL, 1)
BUDGET = BudgetRecord(
    "bud_a",
    "org_a",
    "all",
    (BudgetScope(BudgetSubject.ORGANISATION),),
    150_000_000,
    BudgetPeriod.DAY,
)


HIT = "hit; tier=local"


@pytest.fixture
async def store(client: Redis, admin: Redis) -> AsyncIterator[Redis]:
    """A client of a seeded store, which knows what was spent as soon as it has an epoch."""
    await admin.mset(SEEDED)

    async def know() -> None:
        while (epoch := await admin.get(wire.LIMITS_EPOCH)) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await admin.set(wire.BUDGETS_SEEDED, epoch)

    knowing = asyncio.create_task(know())
    yield client
    await asyncio.wait([knowing], timeout=0)
    knowing.cancel()


@asynccontextmanager
async def limited(
    upstream: Upstream,
    store: Redis,
    *,
    limits: tuple[LimitRecord, ...] = (),
    budgets: tuple[BudgetRecord, ...] = (),
    policy: CachePolicyRecord = POLICY,
) -> AsyncIterator[Gateway]:
    """A gateway with caches, limits and budgets."""
    snapshot = cached_configuration(
        pool_record("a", upstream.base_url), policy=policy, limits=limits, budgets=budgets
    )
    async with running_gateway(snapshot, store=store, caches=make_caches(Clock())) as gateway:
        yield gateway


async def told(gateway: Gateway, requests: int) -> list[str]:
    """What becomes of the same request, asked so often one after the other."""
    replies = [await chat(gateway.port, max_tokens=5) for _ in range(requests)]
    return [one.code if one.status != 200 else cache(one) for one in replies]


async def test_a_hit_counts_as_a_request(upstream: Upstream, store: Redis) -> None:
    async with limited(upstream, store, limits=(REQUESTS,)) as gateway:
        assert await told(gateway, 3) == ["miss", HIT, "rate_limit_exceeded"]


async def test_a_hit_takes_no_tokens(upstream: Upstream, store: Redis) -> None:
    # a request takes what it may use until it has ended: what is left is too little for another
    upstream.play(Behaviour(usage={"prompt_tokens": 200, "completion_tokens": 45}))
    async with limited(upstream, store, limits=(TOKENS,)) as gateway:
        assert await told(gateway, 3) == ["miss", HIT, HIT]
        assert (await chat(gateway.port, seed=1)).code == "rate_limit_exceeded"


async def test_a_hit_takes_a_place_among_parallel_requests_and_gives_it_back(
    upstream: Upstream, store: Redis
) -> None:
    async with limited(upstream, store, limits=(PARALLEL,)) as gateway:
        assert await told(gateway, 5) == ["miss", HIT, HIT, HIT, HIT]
        upstream.play(Behaviour(delay_ms=400))
        slow = asyncio.create_task(chat(gateway.port, seed=1))
        await gateway.wait_for(lambda: gateway.inflight)
        assert await told(gateway, 1) == ["rate_limit_exceeded"]
        assert (await slow).status == 200


async def test_only_if_cached_counts_as_a_request_too(upstream: Upstream, store: Redis) -> None:
    async with limited(upstream, store, limits=(REQUESTS,)) as gateway:
        wish = {"cache-control": "only-if-cached"}
        assert [(await ask(gateway, wish)).status for _ in range(3)] == [504, 504, 429]


@pytest.mark.parametrize(("serves", "expected"), [(True, HIT), (False, "budget_exceeded")])
async def test_a_hit_is_served_though_money_is_out_unless_the_policy_says_no(
    upstream: Upstream, store: Redis, serves: bool, expected: str
) -> None:
    policy = replace(POLICY, serves_out_of_budget=serves)
    async with limited(upstream, store, budgets=(BUDGET,), policy=policy) as gateway:
        await gateway.wait_for(lambda: gateway.limiter.leases.has_budgets)
        # of $0.15 that a request may cost at most, $0.12 are spent
        upstream.play(Behaviour(usage={"prompt_tokens": 100, "completion_tokens": 10}))
        assert await told(gateway, 2) == ["miss", expected]
        assert (await chat(gateway.port, max_tokens=5, seed=1)).code == "budget_exceeded"
        assert [len(one.charges) for one in gateway.books.ends] == [1, 0, 0]


@pytest.mark.parametrize(("finish", "expected"), [("stop", HIT), ("length", "miss")])
async def test_a_maximum_that_a_budget_wants_is_no_other_request(
    upstream: Upstream, store: Redis, finish: str, expected: str
) -> None:
    message = {"role": "assistant", "content": "one"}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 1}
    upstream.play(Behaviour(body=json.dumps({"choices": [choice], "usage": usage})))
    budget = replace(BUDGET, amount_nanousd=10**15)
    async with limited(upstream, store, budgets=(budget,)) as gateway:
        await gateway.wait_for(lambda: gateway.limiter.leases.has_budgets)
        replies = [await chat(gateway.port) for _ in range(2)]
    assert "max_tokens" in upstream.calls[0].body
    assert [cache(one) for one in replies] == ["miss", expected]

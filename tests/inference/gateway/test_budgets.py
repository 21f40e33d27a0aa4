"""Budgets as callers meet them: who is refused, what is reserved, what is booked in the end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import (
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    Outcome,
    UnknownPrice,
)
from inference.contract.snapshot import BudgetRecord, BudgetScope, ConfigSnapshot, ModelRecord
from inference.decisions.budgets import Account, Period
from tests.inference.clocks import HandClock
from tests.inference.gateway.client import chat, opened, post, request_bytes, streaming
from tests.inference.gateway.rig import (
    KEY_ID,
    PRICE,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.gateway.test_limits import ENDPOINTS
from tests.inference.limits.rig import SEEDED
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

CENT = 10_000_000
COST = 2 * CENT
ASKED = {"max_tokens": 50}
AMPLE = 10**15

AT_S = datetime(2026, 5, 12, tzinfo=UTC).timestamp()
MAY = Period(*(int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) for month in (5, 6)))

UNSEEN = BudgetScope(BudgetSubject.END_USER)


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


def budget(amount_nanousd: int, *scopes: BudgetScope, **changes: object) -> BudgetRecord:
    """A budget of the key that tests use, unless it is of something else."""
    scopes = scopes or (BudgetScope(BudgetSubject.KEY, KEY_ID),)
    record = BudgetRecord("bud_a", "org_a", "main", scopes, amount_nanousd, BudgetPeriod.MONTH)
    return replace(record, **changes)


def under(upstream: Upstream, *budgets: BudgetRecord, **route: object) -> ConfigSnapshot:
    return configuration(
        pool_record("a", upstream.base_url), routes=(route_record("a", **route),), budgets=budgets
    )


@asynccontextmanager
async def serving(
    store: Redis,
    snapshot: ConfigSnapshot,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Gateway]:
    clock = clock or HandClock(AT_S)
    async with running_gateway(snapshot, store=store, clock=clock) as gateway:
        await gateway.wait_for(lambda: gateway.limiter.leases.has_budgets)
        yield gateway


async def bound_of(upstream: Upstream, **fields: object) -> int:
    """The most that a request may cost."""
    async with running_gateway(under(upstream)) as gateway:
        await chat(gateway.port, **{**ASKED, **fields})
        bound = gateway.books.openings[0].cost_max_nanousd
    upstream.reset()
    assert bound is not None
    return bound


async def times(count: int, gateway: Gateway, **fields: object) -> list[int]:
    return [(await chat(gateway.port, **{**ASKED, **fields})).status for _ in range(count)]


async def counted(admin: Redis, record: BudgetRecord, *subjects: str) -> tuple[int, int]:
    """What the store has of a budget: spent and reserved."""
    found = await admin.hmget(Account(record, subjects, MAY).key, "g", "l")
    granted, may_return = (int(one or 0) for one in found)
    return granted - may_return, may_return


async def test_requests_pass_until_what_is_left_is_less_than_one_may_cost(
    store: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    async with serving(store, under(upstream, budget(bound + 2 * COST))) as gateway:
        assert await times(3, gateway) == [200] * 3
        refused = await chat(gateway.port, **ASKED)
        assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
        assert refused.error["type"] == "rate_limit_error"
        assert "main of this key is $" in refused.error["message"]
        assert refused.headers["retry-after"] == str(MAY.ends_s - int(AT_S))
        assert refused.headers["x-should-retry"] == "false"
        assert len(upstream.calls) == 3
        assert gateway.metric("budget_refusals_total") == 1
        # what costs less still fits
        assert await times(1, gateway, max_tokens=1) == [200]
        told = [(one.decision or {})["budgets"] for one in gateway.books.ends[2:4]]
        kept = {"kept": ["bud_a"], "reserved_nanousd": bound}
        assert told == [kept, {**kept, "refused": "bud_a"}]


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_there_is_no_way_past_a_budget(store: Redis, upstream: Upstream, path: str) -> None:
    snapshot = under(upstream, budget(0))
    if path == "/v1/embeddings":
        snapshot = replace(snapshot, models={"mdl_a": ModelRecord("mdl_a", "org_a", "e", "embed")})
    async with serving(store, snapshot) as gateway:
        reply = await post(gateway.port, path, **ENDPOINTS[path])
        assert (reply.status, b"budget_exceeded" in reply.body) == (429, True)
        assert upstream.calls == []


async def test_users_that_nobody_has_seen_have_their_budget_from_the_first_request_on(
    store: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream, user="cust-1")
    async with serving(store, under(upstream, budget(2 * bound, UNSEEN))) as gateway:
        calls = [chat(gateway.port, user=f"cust-{n % 2}", **ASKED) for n in range(8)]
        upstream.play(Behaviour(delay_ms=300))
        statuses = [one.status for one in await asyncio.gather(*calls)]
        assert (statuses.count(200), statuses.count(429)) == (4, 4)
        gateway.apply(under(upstream, budget(1, UNSEEN)))
        assert await times(1, gateway, user="cust-3") == [429]
        assert await times(1, gateway) == [200], "who names no user has no such budget"


async def test_many_at_once_at_two_gateways_reserve_no_more_than_there_is_and_no_less(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound, count = await bound_of(upstream), 7
    record = budget(count * bound + bound // 2)
    upstream.play(Behaviour(delay_ms=1_500))
    async with serving(store, under(upstream, record)) as one:
        async with serving(store, under(upstream, record)) as other:
            calls = [chat(at.port, **ASKED) for at in (one, other) for _ in range(20)]
            replies = await asyncio.gather(*calls)
            statuses = [reply.status for reply in replies]
            assert (statuses.count(200), statuses.count(429)) == (count, 40 - count)
            refused = [reply for reply in replies if reply.status == 429]
            assert {reply.headers["retry-after"] for reply in refused} == {"1"}
            assert all("held for others" in reply.error["message"] for reply in refused)
            upstream.play(Behaviour())
            # what was reserved and not spent is there again, whoever had it
            spare = (count * bound + bound // 2 - count * COST - bound) // COST
            left = [await times(1, at) for at in (one, other, other, one)]
            assert left == [[200]] * 4
            assert spare > 4
    assert await counted(admin, record, KEY_ID) == ((count + 4) * COST, 0)


async def test_a_client_that_leaves_gives_back_what_it_did_not_use(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(AMPLE)
    upstream.play(Behaviour(gap_ms=100, text=" ".join(["one"] * 50)))
    async with serving(store, under(upstream, record)) as gateway:
        async with streaming(gateway.port, max_tokens=50) as running:
            await running.read_until(b"one")
            running.leave()
        await gateway.wait_ended(1)
        booked = gateway.books.charge.cost_nanousd
    assert gateway.books.end.outcome is Outcome.CANCELLED
    assert booked
    assert await counted(admin, record, KEY_ID) == (booked, 0)


async def test_an_unknown_price_is_refused_or_let_through_and_is_never_zero(
    store: Redis, upstream: Upstream
) -> None:
    snapshot = replace(under(upstream, budget(AMPLE)), prices={})
    async with serving(store, snapshot) as gateway:
        refused = await chat(gateway.port)
        assert (refused.status, "no price" in refused.error["message"]) == (429, True)
        assert "retry-after" not in refused.headers
        allowing = budget(0, unknown_price=UnknownPrice.ALLOW)
        gateway.apply(replace(under(upstream, allowing), prices={}))
        assert await times(1, gateway) == [200]
        await gateway.wait_ended(2)
        assert gateway.books.ends[-1].charges[0].cost_nanousd is None


async def test_what_is_free_passes_a_budget_that_is_used_up(
    store: Redis, upstream: Upstream
) -> None:
    free = replace(PRICE, input_nanousd_per_mtok=0, output_nanousd_per_mtok=0)
    snapshot = replace(under(upstream, budget(0)), prices={"mdl_a": free})
    async with serving(store, snapshot) as gateway:
        assert await times(2, gateway) == [200, 200]


async def test_one_that_notifies_refuses_nobody_and_counts_all_the_same(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(1, action=BudgetAction.NOTIFY)
    async with serving(store, under(upstream, record)) as gateway:
        assert await times(3, gateway) == [200] * 3
    assert await counted(admin, record, KEY_ID) == (3 * COST, 0)


async def test_of_two_models_the_one_without_a_budget_serves(
    store: Redis, upstream: Upstream
) -> None:
    pools = (
        pool_record("a", upstream.base_url),
        pool_record("b", upstream.base_url, model_id="mdl_b"),
    )
    scope = BudgetScope(BudgetSubject.MODEL, "mdl_a")
    price = replace(PRICE, id="prc_b", model_id="mdl_b")
    snapshot = configuration(
        *pools,
        models=(ModelRecord("mdl_a", "org_a", "a"), ModelRecord("mdl_b", "org_a", "b")),
        prices=(PRICE, price),
        budgets=(budget(1, scope), budget(AMPLE, BudgetScope(BudgetSubject.MODEL), id="bud_b")),
    )
    async with serving(store, snapshot) as gateway:
        assert await times(1, gateway) == [200]
        charge = gateway.books.charge
        assert (charge.model_id, charge.cost_nanousd) == ("mdl_b", COST)
        told = (gateway.books.end.decision or {})["budgets"]
        assert told["kept"] == ["bud_b"]


async def test_a_second_worker_is_asked_only_if_the_budget_has_room_for_both(
    store: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    upstream.play(Behaviour(delay_ms=600))
    route = {"hedge_after_ms": 50, "max_attempts": 2, "retry_budget_percent": 100}
    asked = []
    for amount in (2 * bound - 1, 2 * bound):
        pools = [pool_record(name, upstream.base_url) for name in "ab"]
        record = budget(amount, id=f"bud_{amount}")
        snapshot = configuration(
            *pools, routes=(route_record("a", "b", **route),), budgets=(record,)
        )
        async with serving(store, snapshot) as gateway:
            before = len(upstream.calls)
            assert await times(1, gateway) == [200]
            asked.append(len(upstream.calls) - before)
    assert asked == [1, 2]


async def test_a_raise_has_an_end_and_a_new_period_begins_with_nothing_spent(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound, raised_to_nanousd=bound + COST, raised_until=AT_S + 60)
    clock = HandClock(AT_S)
    async with serving(store, under(upstream, record), clock) as gateway:
        assert await times(3, gateway) == [200, 200, 429]
        clock.move(60)
        assert await times(1, gateway) == [429]
        gateway.apply(under(upstream, replace(record, amount_nanousd=bound + 2 * COST)))
        assert await times(2, gateway) == [200, 429], "an edit forgets nothing that was spent"
        clock.move(MAY.ends_s - AT_S)
        assert await times(1, gateway) == [200]
    assert await counted(admin, record, KEY_ID) == (3 * COST, 0)


async def test_what_came_before_midnight_is_of_the_day_it_came(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record, clock = budget(AMPLE), HandClock(MAY.ends_s - 1)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
    request = request_bytes(body)
    async with serving(store, under(upstream, record), clock) as gateway:
        async with opened(gateway.port, request[:-5]) as slow:
            await gateway.wait_for(lambda: gateway.tasks)
            clock.move(2)
            assert await times(1, gateway) == [200]
            slow.writer.write(request[-5:])
            await slow.read_head()
            assert (await slow.read_rest()).status == 200
    assert await counted(admin, record, KEY_ID) == (COST, 0)


async def test_until_the_store_knows_what_was_spent_nothing_that_blocks_lets_anybody_in(
    client: Redis, admin: Redis, upstream: Upstream
) -> None:
    await admin.mset(SEEDED)
    async with running_gateway(under(upstream, budget(AMPLE)), store=client) as gateway:
        await gateway.wait_for(lambda: not gateway.limiter.leases.is_starting)
        refused = await chat(gateway.port)
        assert (refused.status, refused.error["code"]) == (503, "budgets_unavailable")
        assert upstream.calls == []
        gateway.apply(under(upstream, budget(1, action=BudgetAction.NOTIFY)))
        assert await times(1, gateway) == [200]
        await admin.set(wire.BUDGETS_SEEDED, await admin.get(wire.LIMITS_EPOCH))
        gateway.apply(under(upstream, budget(AMPLE)))
        await gateway.wait_for(lambda: gateway.limiter.leases.has_budgets)
        assert await times(1, gateway) == [200]

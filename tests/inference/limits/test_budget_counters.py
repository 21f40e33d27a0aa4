"""Counters of budgets: what was spent stays, what was reserved comes back, whoever dies."""

import asyncio
import time

import pytest
import structlog
from redis.asyncio import Redis

from inference.contract import wire
from inference.limits.batches import DEAD_S, Late
from inference.limits.broker import Broker
from inference.limits.shelf import Shelf
from inference.limits.slices import Claim, Counter, Permit
from inference.store import connect_store
from tests.inference.limits.rig import SEEDED, WAIT_S, Process, running, several
from tests.inference.stores import PATIENCE_S, OwnStore, until

pytestmark = pytest.mark.slow

log = structlog.get_logger(__name__)

AMOUNT = 100
ENDS_MS = int(time.time() * 1000) + 3_600_000
KEY = wire.limits_counter_key("org_a", "money")


def money(amount: int = AMOUNT, *, ends_ms: int = ENDS_MS) -> Counter:
    return Counter(KEY, "org_a", 0, amount, is_refundable=True, ends_ms=ends_ms)


async def reserve(at: Process, units: int, counter: Counter | None = None) -> Permit:
    permit = await at.take(counter or money(), units=units)
    assert permit is not None, "there is not so much left"
    return permit


def settle(at: Process, permit: Permit, spent: int) -> None:
    at.leases.settle(permit, {0: spent})


async def stands(admin: Redis, spent: int, reserved: int) -> None:
    """Return once the store has this, which it hears within a second."""
    found = None
    deadline = time.monotonic() + PATIENCE_S
    while found != (spent, reserved):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)
        granted, back = (int(one or 0) for one in await admin.hmget(KEY, "g", "l"))
        found = granted - back, back


async def most(at: Process) -> int:
    """How much can be reserved at a process now; it is given back."""
    for units in range(AMOUNT, 0, -1):
        if (permit := await at.take(money(), units=units)) is not None:
            at.leases.undo(permit)
            await at.leases.told()
            return units
    return 0


async def test_what_a_dead_process_spent_stays_and_what_it_reserved_comes_back(
    store: OwnStore, admin: Redis
) -> None:
    async with several(store, 2) as (one, other):
        settle(one, await reserve(one, 50), 20)
        await reserve(one, 30)
        await stands(admin, 20, 30)
        assert await other.take(money(), units=51) is None
        assert await most(other) == AMOUNT - 20 - 30
        await one.die()
        died_s = time.monotonic()
        while await other.take(money(), units=AMOUNT - 20) is None:
            assert time.monotonic() < died_s + 20 * DEAD_S
        took_s = time.monotonic() - died_s
        log.info("came back", seconds=round(took_s, 2))
        assert took_s >= DEAD_S - 1.5, "three missed beats, and no sooner"
        assert await other.take(money()) is None
        await stands(admin, 20, AMOUNT - 20)


async def test_the_first_who_asks_after_a_quiet_hour_finds_what_a_dead_process_had_reserved_free(
    store: OwnStore, admin: Redis
) -> None:
    async with several(store, 2) as (one, other):
        await reserve(one, AMOUNT)
        await one.die()
        holders = wire.limits_holders_key("org_a")
        await admin.hincrby(holders, "at", -3_600_000)
        assert await other.take(money(), units=AMOUNT) is not None


async def test_a_process_that_was_taken_for_dead_books_what_it_spent_all_the_same(
    store: OwnStore, admin: Redis
) -> None:
    async with several(store, 2) as (one, other):
        permit = await reserve(one, 60)
        await one.die()
        late: Permit | None = None
        while late is None:
            late = await other.take(money(), units=AMOUNT)
        client = connect_store(store.url)
        again = asyncio.create_task(Broker(client, one.leases, settle_s=0, wait_s=WAIT_S).run())
        settle(one, permit, 55)
        settle(other, late, AMOUNT)
        await stands(admin, AMOUNT + 55, 0)
        # it says so: this is the one case in which a budget is passed
        assert (one.leases.late, other.leases.late) == (Late(1, 55, 55), Late())
        assert await admin.hmget(KEY, "late", "past") == [b"55", b"55"]
        again.cancel()
        await asyncio.wait([again])
        await client.aclose()


async def test_a_store_that_comes_back_empty_is_told_what_the_living_spent(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa") as one:
        settle(one, await reserve(one, 50), 40)
        await stands(admin, 40, 0)
        await admin.flushall()
        await admin.mset(SEEDED)
        await stands(admin, 40, 0)
        async with running(store, "bb") as other:
            assert not other.leases.has_budgets
            # the control plane tells what others had spent, in its own name
            await admin.hincrby(KEY, "g", 10)
            await admin.hincrby(KEY, f"g:{wire.BUDGET_LEDGER}", 10)
            await admin.set(wire.BUDGETS_SEEDED, await admin.get(wire.LIMITS_EPOCH))
            await until(lambda: other.leases.has_budgets, "the budgets")
            assert await most(other) == AMOUNT - 50


async def test_what_ends_after_its_period_is_counted_in_it(store: OwnStore, admin: Redis) -> None:
    ends_ms = int(time.time() * 1000) + 700
    async with running(store, "aa") as one:
        permit = await reserve(one, 50, money(ends_ms=ends_ms))
        await asyncio.sleep(1)
        settle(one, permit, 30)
        await stands(admin, 30, 0)
        assert await admin.pttl(KEY) > 24 * 3_600_000
        # a clock behind the store's still counts on it, and within the amount
        assert await one.take(money(ends_ms=ends_ms), units=71) is None
        await reserve(one, 70, money(ends_ms=ends_ms))


@pytest.mark.parametrize("spent", [-1, -99_999_999, -150_000_000, -1_234_567_890, -(10**12)])
async def test_what_was_corrected_below_nothing_is_free_to_the_unit(
    store: OwnStore, admin: Redis, spent: int
) -> None:
    told = {"w": "1", "g": str(spent), f"g:{wire.BUDGET_LEDGER}": str(spent)}
    await admin.hset(KEY, mapping=told)
    free = AMOUNT - spent
    async with running(store, "aa") as one:
        assert await one.take(money(), units=free + 1) is None
        permit = await reserve(one, free)
        assert await one.take(money()) is None
        settle(one, permit, free - 7)
        await stands(admin, AMOUNT - 7, 0)
        await reserve(one, 7)


@pytest.mark.parametrize("is_budget", [True, False])
def test_a_budget_is_looked_up_anew_when_its_slice_was_forgotten(*, is_budget: bool) -> None:
    shelf = Shelf(wake=lambda: None)
    counter = money() if is_budget else Counter(KEY, "org_a", 60_000, AMOUNT, is_refundable=True)
    one = shelf.of(counter)
    claim = Claim(counter, 0, 0, is_strict=False)
    one.settle(claim, 0, 0, window=one.window, now_s=10.0)
    shelf.sweep(3_000.0)
    assert (shelf.get(KEY) is None) is not is_budget
    shelf.sweep(3_700.0)
    assert shelf.get(KEY) is None
    # what was spent here is not known any more: nothing is said of it to the store
    assert (shelf.of(counter).window is None) is is_budget

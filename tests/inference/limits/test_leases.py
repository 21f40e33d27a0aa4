"""Several processes' leases on one store: exact, all or none, and nobody refused in vain."""

import asyncio
import time

import pytest
from redis.asyncio import Redis

from inference.limits.slices import Claim
from tests.inference.limits.rig import DAY_MS, counter, granted, running, several, slots
from tests.inference.stores import OwnStore, until

pytestmark = pytest.mark.slow


async def test_no_more_than_the_amount_is_granted_and_no_less_over_several_processes(
    store: OwnStore, admin: Redis
) -> None:
    async with several(store, 3) as processes:
        found = await asyncio.gather(*(one.take_many(counter(50), 40) for one in processes))
        assert sum(found) == 50
        assert await granted(admin, counter(50)) == 50


async def test_units_held_ahead_by_others_are_given_back_to_who_would_else_be_refused(
    store: OwnStore,
) -> None:
    async with several(store, 3) as (rich, poor, idle):
        assert await idle.take(counter(100)) is not None
        for _ in range(10):
            assert await rich.take(counter(100)) is not None
        ahead = rich.leases.slice_of(counter(100)).left
        assert ahead > 1
        taken = [await poor.take(counter(100)) for _ in range(90)]
        assert [one is None for one in taken] == [False] * 89 + [True]
        assert await rich.take(counter(100)) is None


async def test_all_counters_are_taken_or_none(store: OwnStore) -> None:
    week, day = counter(10, name="w", window_ms=7 * DAY_MS), counter(3, name="d")
    async with running(store, "aa") as process:
        assert [await process.take(week, day) is None for _ in range(5)] == [
            *(False, False, False),
            *(True, True),
        ]
        raised = counter(100, name="d")
        found = [await process.take(week, raised) for _ in range(8)]
        assert [one is None for one in found] == [False] * 7 + [True]
        assert await process.take(counter(10, name="d")) is None
        assert await process.take(counter(11, name="d")) is not None


async def test_a_request_kept_for_a_refused_one_is_not_refused_in_its_turn(store: OwnStore) -> None:
    both, none = counter(1, name="x"), counter(0, name="y")
    async with several(store, 2) as (one, other):
        found = await asyncio.gather(
            one.take(both, none), one.take(both), other.take(both, none), other.take(both)
        )
        assert (found[0], found[2]) == (None, None)
        assert [found[1] is None, found[3] is None].count(False) == 1


async def test_the_common_case_asks_nobody(store: OwnStore) -> None:
    wanted = [counter(10**9, name=str(number)) for number in range(6)]
    claims = [Claim(one, 1, 1, is_strict=True) for one in wanted]
    async with running(store, "aa") as process:
        while min(process.leases.slice_of(one).left for one in wanted) < 600:
            assert await process.take(*wanted) is not None
        for _ in range(500):
            assert not isinstance(process.leases.take("id", claims), asyncio.Future)


async def test_a_changed_amount_holds_at_once_and_forgets_nothing(store: OwnStore) -> None:
    async with several(store, 2) as (one, other):
        for _ in range(10):
            assert await one.take(counter(10)) is not None
        for _ in range(20):
            assert await other.take(counter(10)) is None
        raised = [await other.take(counter(20)) for _ in range(11)]
        assert [found is None for found in raised] == [False] * 10 + [True]
        assert await one.take(counter(15)) is None
        assert await one.take(counter(21)) is not None


async def test_a_lowered_amount_leaves_no_slice_good(store: OwnStore) -> None:
    async with several(store, 2) as (one, other):
        for _ in range(10):
            assert await one.take(counter(1_000)) is not None
        assert one.leases.slice_of(counter(1_000)).left > 0
        assert await other.take(counter(11)) is not None
        assert await one.take(counter(11)) is None


async def test_every_counter_has_a_window_of_its_own(store: OwnStore) -> None:
    second, day = counter(1, name="s", window_ms=1_000), counter(3, name="d")
    async with running(store, "aa") as process:
        taken = 0
        deadline = time.monotonic() + 8
        while taken < 3:
            taken += await process.take(second, day) is not None
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert await process.take(day) is None


async def test_slots_are_shared_and_free_the_moment_they_are_given_back(store: OwnStore) -> None:
    async with several(store, 3) as processes:
        for number in range(12):
            here, there = processes[number % 3], processes[(number + 1) % 3]
            permit = await here.take(slots(1))
            assert permit is not None
            assert await there.take(slots(1)) is None
            here.leases.undo(permit)


async def test_slots_of_a_dead_process_come_back_and_those_of_living_ones_never(
    store: OwnStore,
) -> None:
    async with several(store, 2) as (dying, living):
        assert await dying.take(slots(2)) is not None
        kept = await living.take(slots(2))
        assert kept is not None
        await dying.die()
        started = time.monotonic()
        assert await living.take(slots(2)) is None
        while await living.take(slots(2)) is None:
            await asyncio.sleep(0.05)
            assert time.monotonic() - started < 8
        assert time.monotonic() - started > 1.5
        assert await living.take(slots(2)) is None


async def test_a_process_that_ends_in_order_gives_back_what_it_held_ahead(store: OwnStore) -> None:
    async with running(store, "aa") as leaving:
        for _ in range(10):
            assert await leaving.take(counter(100)) is not None
        assert leaving.leases.slice_of(counter(100)).left > 0
    async with running(store, "bb") as staying:
        assert await staying.take_many(counter(100), 100) == 90


async def test_who_stops_waiting_has_taken_nothing(store: OwnStore, admin: Redis) -> None:
    async with running(store, "aa") as process:
        for turns in range(12):
            task = asyncio.create_task(process.take(slots(1)))
            for _ in range(turns):
                await asyncio.sleep(0.0002)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (permit := task.result()) is not None:
                process.leases.undo(permit)
        await until(lambda: process.leases.held == 0, "nothing to be held")
        assert await process.take(slots(1)) is not None


async def test_a_permit_is_settled_once(store: OwnStore) -> None:
    tokens = counter(1_000, is_refundable=True)
    async with running(store, "aa") as process:
        permit = await process.take(tokens, units=600)
        assert permit is not None
        assert await process.take(tokens, units=600) is None
        for _ in range(3):
            process.leases.settle(permit, {0: 100})
        assert await process.take(tokens, units=900) is not None
        assert await process.take(tokens, units=1) is None


async def test_what_is_used_beyond_is_counted_everywhere(store: OwnStore) -> None:
    tokens = counter(100)
    glance = [Claim(tokens, 1, 0, is_strict=False)]
    async with several(store, 2) as processes:
        for one in processes:
            permit = await one.leases.outcome(one.leases.take("id", glance))  # type: ignore[arg-type]
            assert one.leases.settle(permit, {0: 60})
            await one.leases.told()
        for one in processes:
            assert await one.take(tokens) is None


@pytest.mark.parametrize("amount", [2**53 + 1, 2**62 - 1])
async def test_amounts_beyond_what_a_float_holds_are_exact(store: OwnStore, amount: int) -> None:
    money = counter(amount, is_refundable=True)
    async with several(store, 2) as (one, other):
        assert await one.take(money, units=amount - 1) is not None
        assert await other.take(money, units=2) is None
        assert await other.take(money, units=1) is not None
        assert await other.take(money, units=1) is None


async def test_counters_nobody_asks_for_any_more_are_forgotten_here_and_in_the_store(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa", most_slices=50) as process:
        for number in range(300):
            assert await process.take(counter(5, name=f"u{number}", window_ms=1_000)) is not None
        assert len(process.leases) <= 51

        async def is_empty() -> bool:
            return await admin.keys("hw:limits:{org_a}:u*") == []

        await until(is_empty, "the store to forget them")

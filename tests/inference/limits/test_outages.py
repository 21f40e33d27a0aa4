"""The store is away, silent, unseeded or emptied: nobody waits for it, and it is exact again."""

import asyncio
import time

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.limits.link import WAIT_S
from inference.limits.slices import Counter, CountersUnknown
from tests.inference.limits.rig import DAY_MS, SEEDED, counter, granted, running, several, slots
from tests.inference.stores import OwnStore, until

pytestmark = pytest.mark.slow


async def test_a_silent_store_is_waited_for_once_and_then_by_nobody(store: OwnStore) -> None:
    async with running(store, "aa", wait_s=WAIT_S) as process:
        assert await process.take(counter(5)) is not None
        store.freeze()
        started = time.monotonic()
        found = await asyncio.gather(
            *(process.take(counter(5)) for _ in range(4)), return_exceptions=True
        )
        assert {type(one) for one in found} == {CountersUnknown}
        # four one after another would take four times as long as one may be waited for
        assert time.monotonic() - started < 4 * WAIT_S
        started = time.monotonic()
        for _ in range(20):
            assert await process.is_down(counter(5))
        assert time.monotonic() - started < 20 * WAIT_S
        permit = await process.take(counter(5), is_strict=False)
        assert permit is not None
        assert permit.lacking == [0]
        store.thaw()
        await until(lambda: process.leases.is_usable, "the store to be back")
        assert await process.take_many(counter(6), 9) == 5


async def test_what_is_held_is_used_up_before_anybody_is_refused(store: OwnStore) -> None:
    async with running(store, "aa") as process:
        for _ in range(10):
            assert await process.take(counter(1_000)) is not None
        store.stop()
        await until(lambda: not process.leases.is_usable, "the store to be missed")
        left = process.leases.slice_of(counter(1_000)).left
        assert left > 0
        found = [await process.is_down(counter(1_000)) for _ in range(left + 3)]
        assert found == [False] * left + [True] * 3


async def test_two_processes_without_a_store_have_no_more_slots_than_with_one(
    store: OwnStore,
) -> None:
    async with several(store, 2) as processes:
        permits = [await one.take(slots(2)) for one in processes]
        assert None not in permits
        store.stop()
        await until(lambda: not any(one.leases.is_usable for one in processes), "it to be missed")
        for one, permit in zip(processes, permits, strict=True):
            assert permit is not None
            assert await one.is_down(slots(2))
            one.leases.undo(permit)
            assert await one.take(slots(2)) is not None
            assert await one.is_down(slots(2))


async def test_an_emptied_store_is_as_good_as_none_until_it_is_seeded_and_told_again(
    store: OwnStore, admin: Redis
) -> None:
    async with several(store, 2) as (one, other):
        assert await one.take_many(counter(10), 4) == 4
        assert await other.take_many(counter(10), 4) == 4
        await admin.flushall()
        await until(lambda: not one.leases.is_usable, "it to be noticed")
        await until(lambda: not other.leases.is_usable, "it to be noticed")
        assert await one.is_down(counter(10))
        await admin.mset(SEEDED)
        await until(lambda: one.leases.is_usable and other.leases.is_usable, "it to be found")

        async def is_told() -> bool:
            return await granted(admin, counter(10)) >= 8

        await until(is_told, "both to have told it")
        assert await one.take_many(counter(10), 5) == 2


async def test_a_store_that_may_have_lost_something_gives_nothing_out_for_a_while(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa", settle_s=0.5) as process:
        assert await process.take(counter(5)) is not None
        await admin.delete(wire.LIMITS_EPOCH)
        await until(lambda: not process.leases.is_usable, "it to be noticed")
        assert await process.is_down(counter(5))
        await until(lambda: process.leases.is_usable, "it to be believed again")
        assert await process.take_many(counter(5), 9) == 4


@pytest.mark.slow
async def test_a_store_that_stood_still_takes_nobody_for_dead(store: OwnStore) -> None:
    async with several(store, 2, wait_s=WAIT_S) as (one, other):
        held = [await one.take(slots(2)), await other.take(slots(2))]
        assert None not in held
        store.freeze()
        frozen = time.monotonic()
        await until(lambda: time.monotonic() - frozen > 3.6, "more than three beats to be missed")
        store.thaw()
        await until(lambda: one.leases.is_usable or other.leases.is_usable, "it to be back")
        quick = one if one.leases.is_usable else other
        assert await quick.take(slots(2)) is None


@pytest.mark.parametrize("is_strict", [True, False])
async def test_the_first_full_window_after_an_outage_is_exact(
    store: OwnStore, is_strict: bool
) -> None:
    second = counter(20, window_ms=1_000)
    async with several(store, 2, wait_s=WAIT_S) as processes:
        store.freeze()
        found = [await one.take(second, is_strict=False) for one in processes]
        assert [one is not None and one.lacking for one in found] == [[0], [0]]
        store.thaw()
        await until(lambda: all(one.leases.is_usable for one in processes), "it to be back")
        await until(lambda: time.time() % 1 < 0.2, "the next window to begin")
        takes = [one.take(second, is_strict=is_strict) for one in processes for _ in range(30)]
        permits = [one for one in await asyncio.gather(*takes) if one is not None]
        assert (len(permits), sum(len(one.lacking) for one in permits)) == (20, 0)


async def test_a_long_outage_takes_no_more_memory_than_a_short_one(store: OwnStore) -> None:
    async with running(store, "aa", most_slices=50) as process:
        store.stop()
        await until(lambda: not process.leases.is_usable, "the store to be missed")
        for number in range(400):
            permit = await process.take(counter(5, name=f"u{number}"), is_strict=False)
            assert permit is not None
            process.leases.settle(permit, {})
        assert len(process.leases) <= 101


async def test_who_waits_to_be_told_is_let_go_when_nothing_can_be_said(
    store: OwnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(**_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("nothing can be said")

    async with running(store, "aa") as process:
        monkeypatch.setattr(process.leases, "build", failing)
        async with asyncio.timeout(2):
            await process.leases.told()
        await asyncio.wait([process.task])
        assert process.task.exception() is not None


async def connections_of(admin: Redis) -> int:
    """How many were made to the store, ever."""
    return int((await admin.info("stats"))["total_connections_received"])


async def calls_of(admin: Redis) -> int:
    """How often the lease script was called, ever."""
    return int((await admin.info("commandstats"))["cmdstat_evalsha"]["calls"])


async def test_what_cannot_be_counted_fails_for_its_own_organisation_alone(
    store: OwnStore, admin: Redis
) -> None:
    odd = counter(5)
    well = Counter(wire.limits_counter_key("org_b", "a"), "org_b", DAY_MS, 5, False)
    async with running(store, "aa") as one:
        connections = await connections_of(admin)
        await admin.set(odd.key, "no counter")
        # in one round trip
        is_down, permit = await asyncio.gather(one.is_down(odd), one.take(well))
        assert is_down
        assert permit is not None
        assert one.leases.is_usable
        went_without = await one.take(odd, is_strict=False)
        assert went_without is not None
        assert went_without.lacking == [0]
        calls = await calls_of(admin)
        await asyncio.sleep(0.5)
        assert await calls_of(admin) - calls < 20, "it is told again with a beat, not all the time"
        await admin.delete(odd.key)
        assert await one.take_many(odd, 9) == 5
        assert await connections_of(admin) == connections


async def test_who_waits_to_be_told_is_let_go_by_a_store_that_is_late(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa", wait_s=0.2) as one:
        connections = await connections_of(admin)
        store.freeze()
        await one.leases.told(one.leases.slice_of(counter(5)))
        assert not one.leases.is_usable
        store.thaw()
        await until(lambda: one.leases.is_usable, "the answer")
        assert await connections_of(admin) == connections, "before the line was given up"


async def test_what_a_late_store_grants_is_given_back_and_the_line_to_it_kept(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa", wait_s=0.2) as one:
        strict, connections = slots(5), await connections_of(admin)
        store.freeze()
        assert await one.is_down(strict)
        assert not one.leases.is_usable
        store.thaw()
        await until(lambda: one.leases.is_usable, "the answer")
        assert one.leases.held == 0
        assert await one.take(strict, units=5) is not None
        assert await connections_of(admin) == connections

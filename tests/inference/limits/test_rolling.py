"""A counter that rolls, on a real store: what is old enough leaves it, exactly, whoever dies."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from inference.limits.leases import Leases
from inference.limits.slices import Claim, Counter, OutOfUnits, Permit
from tests.inference.limits.rig import running
from tests.inference.stores import OwnStore

pytestmark = pytest.mark.slow

BIG = 2**61
STEP_MS, STEPS = 400, 3
FAR_MS = 4_102_444_800_000
KEY = "hw:limits:{org_a}:" + "r" * 32
ROLLING = Counter(KEY, "org_a", 0, 1_000, True, FAR_MS, STEP_MS, STEPS)


def wants(units: int, counter: Counter = ROLLING) -> Claim:
    return Claim(counter, units, units, True)


async def taken(leases: Leases, *claims: Claim) -> Permit:
    found = leases.take("req", list(claims))
    return await leases.outcome(found) if isinstance(found, asyncio.Future) else found


async def spend(leases: Leases, units: int, counter: Counter = ROLLING) -> None:
    permit = await taken(leases, wants(units, counter))
    leases.settle(permit, {0: units})
    await leases.told()


async def fits(leases: Leases, units: int) -> bool:
    try:
        permit = await taken(leases, wants(units))
    except OutOfUnits:
        return False
    leases.undo(permit)
    return True


async def eventually(is_so: Callable[[], Awaitable[bool]]) -> float:
    """How long it took until it was so."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not await is_so():
        assert loop.time() - began < 60
        await asyncio.sleep(0.02)
    return loop.time() - began


async def test_what_is_old_leaves_and_no_stretch_of_the_length_has_more(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "aa") as one:
        await spend(one.leases, 600)
        assert not await fits(one.leases, 401)
        # of the length and a step at most it is gone, and not before the length is over
        waited = await eventually(lambda: fits(one.leases, 1_000))
        assert waited >= STEP_MS * STEPS / 1000 - 0.2
        granted, passed = await admin.hmget(KEY, "g", "g:~")
        assert (int(granted or 0) - int(await admin.hget(KEY, "l") or 0), passed) == (0, b"-600")


async def test_spending_leaves_step_by_step_and_large_sums_are_exact(
    store: OwnStore, admin: Redis
) -> None:
    wide = Counter("hw:limits:{org_a}:" + "w" * 32, "org_a", 0, 2 * BIG, True, FAR_MS, STEP_MS, 50)
    async with running(store, "aa") as one:
        await spend(one.leases, BIG + 1, wide)
        await asyncio.sleep(STEP_MS / 1000)
        await spend(one.leases, 7, wide)

        async def is_told() -> bool:
            return bool(await admin.hget(wide.key, "s") == b"%d" % (BIG + 8))

        await eventually(is_told)
        found = await admin.hgetall(wide.key)
    steps = sorted(int(value) for name, value in found.items() if name.startswith(b"b:"))
    assert [value for value in steps if value] == [7, BIG + 1]
    assert int(found[b"s"]) == BIG + 8


async def test_what_a_dead_process_had_spent_stays_until_it_is_old(
    store: OwnStore, admin: Redis
) -> None:
    slow = Counter("hw:limits:{org_a}:" + "d" * 32, "org_a", 0, 1_000, True, FAR_MS, 60_000, 3)
    async with running(store, "aa") as one:
        await spend(one.leases, 300, slow)
    async with running(store, "bb") as other:
        with pytest.raises(OutOfUnits):
            await taken(other.leases, wants(701, slow))
        await taken(other.leases, wants(700, slow))

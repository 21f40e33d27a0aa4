"""Processes' worth of leases on one store, in one loop: each with its own line to the store."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from inference.contract import wire
from inference.limits.broker import Broker
from inference.limits.leases import Leases
from inference.limits.slices import Claim, Counter, CountersUnknown, OutOfUnits, Permit
from inference.store import connect_store
from tests.inference.stores import OwnStore, until

SEEDED = {wire.LINEAGE: "L1", wire.SEEDED_AT: "1"}
DAY_MS = 24 * 3_600_000


def counter(
    amount: int, *, name: str = "a", window_ms: int = DAY_MS, is_refundable: bool = False
) -> Counter:
    """A counter of the organisation `org_a`."""
    key = wire.limits_counter_key("org_a", name)
    return Counter(key, "org_a", window_ms, amount, is_refundable)


def slots(amount: int, name: str = "p") -> Counter:
    """A counter of what is held until it is given back."""
    return counter(amount, name=name, window_ms=0, is_refundable=True)


@dataclass
class Process:
    """One process's leases, and the task that keeps them in step with the store."""

    leases: Leases
    client: Redis
    task: "asyncio.Task[None]"

    async def take(self, *wanted: Counter, units: int = 1, is_strict: bool = True) -> Permit | None:
        """A unit of each, or None if they are used up; raises CountersUnknown."""
        claims = [Claim(one, units, units, is_strict) for one in wanted]
        try:
            taken = self.leases.take("id", claims)
            return await self.leases.outcome(taken) if isinstance(taken, asyncio.Future) else taken
        except OutOfUnits:
            return None

    async def take_many(self, wanted: Counter, times: int) -> int:
        """How many of so many takes, all at once, were granted."""
        found = await asyncio.gather(*(self.take(wanted) for _ in range(times)))
        return sum(one is not None for one in found)

    async def is_down(self, wanted: Counter) -> bool:
        """Whether a strict claim can neither be met nor refused."""
        try:
            await self.take(wanted)
        except CountersUnknown:
            return True
        return False

    async def die(self) -> None:
        """Stop talking, as a process that is killed does: nothing is given back."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.client.aclose()


# On a busy machine a store that is well may be slow to answer.
WAIT_S = 2.0


class Reached(Protocol):
    """A store, as far as a process needs it."""

    @property
    def url(self) -> str: ...


@asynccontextmanager
async def running(
    store: Reached,
    holder: str,
    *,
    settle_s: float = 0,
    wait_s: float = WAIT_S,
    **settings: float,
) -> AsyncIterator[Process]:
    """A process that has found the store."""
    client = connect_store(store.url)
    leases = Leases(holder, stopwatch=time.perf_counter, **settings)  # type: ignore[arg-type]
    task = asyncio.create_task(Broker(client, leases, settle_s=settle_s, wait_s=wait_s).run())
    process = Process(leases, client, task)
    try:
        await until(lambda: leases.is_usable or task.done(), "the store to be found")
        yield process
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.aclose()


@asynccontextmanager
async def several(
    store: OwnStore, count: int, *, wait_s: float = WAIT_S
) -> AsyncIterator[list[Process]]:
    """Processes that have found the store, which is seeded."""
    async with AsyncExitStack() as stack:
        started = [running(store, f"{n:02x}", wait_s=wait_s) for n in range(count)]
        yield [await stack.enter_async_context(one) for one in started]


async def granted(admin: Redis, one: Counter) -> int:
    """What the store has granted of a counter."""
    told = await admin.hget(one.key, "g")
    return 0 if told is None else int(told)

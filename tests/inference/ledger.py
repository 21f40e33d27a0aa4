"""The recorder's side of the stream, for the tests of those who fill it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import decode_end
from inference.contract.events import End


async def seed(admin: Redis, seeded_at: str = "1") -> None:
    """Say that the store may be trusted, as the control plane does."""
    await admin.mset({wire.LINEAGE: "L1", wire.SEEDED_AT: seeded_at})


async def streamed(admin: Redis) -> list[End]:
    """The ends in the stream, in order; each entry has one field."""
    entries = await admin.xrange(wire.USAGE_STREAM)
    assert all(set(fields) == {wire.USAGE_FIELD.encode()} for _, fields in entries)
    return [decode_end(fields[wire.USAGE_FIELD.encode()]) for _, fields in entries]


async def numbers(admin: Redis) -> list[int]:
    """The sequence numbers in the stream, in order."""
    return [end.seq for end in await streamed(admin)]


async def record(admin: Redis) -> list[End]:
    """Take everything out of the stream and move the marks as far as it goes without a gap."""
    entries = await admin.xrange(wire.USAGE_STREAM)
    ends = [decode_end(fields[wire.USAGE_FIELD.encode()]) for _, fields in entries]
    for end in sorted(ends, key=lambda one: one.seq):
        mark = int(await admin.hget(wire.JOURNAL_MARKS, end.journal) or 0)  # type: ignore[misc]
        if end.seq == mark + 1:
            await admin.hset(wire.JOURNAL_MARKS, end.journal, str(end.seq))  # type: ignore[misc]
    if entries:
        await admin.xdel(wire.USAGE_STREAM, *(entry for entry, _ in entries))
    return ends


class Runner(Protocol):
    """Anything with a background task."""

    async def run(self) -> None: ...


@asynccontextmanager
async def running(runner: Runner) -> AsyncIterator[None]:
    """Run a background task meanwhile; it may not end by itself."""
    task = asyncio.create_task(runner.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

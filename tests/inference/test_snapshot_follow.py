"""Following snapshots from disk and a real store, through everything the two can do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract import wire
from inference.contract.vitals import Applied
from inference.snapshots.follow import follow
from inference.snapshots.holder import SnapshotHolder
from inference.snapshots.source import DiskSource, SourceFault, StoreSource
from inference.store import STORE_TROUBLE, StoreHealth
from tests.inference.publishing import DATA_KEY, ROUTE, build, publish, route_named
from tests.inference.stores import OwnStore, until

POLL_S = 0.05
NEVER_S = 3_600.0


@asynccontextmanager
async def following(
    client: Redis, folder: Path, *, poll_s: float = POLL_S, health: StoreHealth | None = None
) -> AsyncIterator[SnapshotHolder]:
    """A holder that follows store and disk meanwhile."""
    holder = SnapshotHolder(DATA_KEY)
    task = asyncio.create_task(
        follow(
            holder,
            disk=DiskSource(folder, DATA_KEY),
            store=StoreSource(client, poll_s=poll_s),
            health=health or StoreHealth("snapshots"),
        )
    )
    try:
        yield holder
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def runs(holder: SnapshotHolder, version: int) -> Callable[[], bool]:
    return lambda: holder.applied.version == version


def on_disk(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def files_of(sections: dict[str, str]) -> set[str]:
    return {"manifest", "lock"} | {f"sections/{digest}" for digest in sections.values()}


async def test_a_message_brings_a_change_without_a_poll(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await publish(admin, build(1))
    async with following(client, tmp_path / "snapshots", poll_s=NEVER_S) as holder:
        await until(runs(holder, 1), "version 1")

        async def is_subscribed() -> bool:
            [(_, listeners)] = await admin.pubsub_numsub(wire.SNAPSHOT_CHANGED)
            return int(listeners) == 1

        await until(is_subscribed, "a subscription")
        await publish(admin, build(2, routes=route_named("two")))
        await until(runs(holder, 2), "version 2")


async def test_a_lost_message_costs_a_poll(client: Redis, admin: Redis, tmp_path: Path) -> None:
    async with following(client, tmp_path / "snapshots") as holder:
        published = build(1)
        for digest, sealed in published.sections.items():
            await admin.set(wire.section_key(digest), sealed)
        await admin.hset(wire.MANIFEST, "sealed", published.sealed)  # type: ignore[arg-type]
        await until(runs(holder, 1), "version 1 without a message")


async def test_what_was_taken_is_on_disk_and_what_is_not_named_is_gone(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "snapshots"
    async with following(client, folder) as holder:
        first = build(1)
        await publish(admin, first)
        await until(lambda: on_disk(folder) == files_of(dict(first.manifest.sections)), "one")
        second = build(2, routes=route_named("two"))
        await publish(admin, second)
        await until(lambda: on_disk(folder) == files_of(dict(second.manifest.sections)), "two")
        assert holder.applied == Applied("L1", 2)
    assert (folder / "manifest").read_bytes() == second.sealed
    assert (folder / "manifest").stat().st_mode & 0o777 == 0o600


async def test_a_start_without_a_store_serves_what_is_on_disk(
    own_store: OwnStore, client: Redis, admin: Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "snapshots"
    published = build(3)
    await publish(admin, published)
    async with following(client, folder) as holder:
        await until(lambda: (folder / "manifest").exists(), "the copy")
    own_store.stop()
    async with following(client, folder) as holder:
        snapshot = await asyncio.wait_for(holder.wait_ready(), 5)
        assert snapshot.routes[("org_a", "chat")] == ROUTE
        assert holder.applied == Applied("L1", 3)


@pytest.mark.slow
async def test_a_frozen_store_holds_nothing_up_and_is_followed_again_when_thawed(
    own_store: OwnStore, client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await publish(admin, build(1))
    health = StoreHealth("snapshots")
    with capture_logs() as logs:
        async with following(client, tmp_path / "snapshots", health=health) as holder:
            await until(runs(holder, 1), "version 1")
            own_store.freeze()
            await until(lambda: outages(logs) == 1, "the outage to be noticed")
            assert not health.is_up
            assert holder.current is not None
            await asyncio.wait_for(asyncio.sleep(0), 0.1)
            own_store.thaw()
            await publish(admin, build(2, routes=route_named("two")))
            await until(runs(holder, 2), "version 2")
            assert health.is_up
    assert outages(logs) == 1
    assert sum(entry["event"] == "state store available again" for entry in logs) == 1


def outages(logs: list[object]) -> int:
    return sum("state store unavailable" in str(entry) for entry in logs)


async def test_an_emptied_store_takes_nothing_away(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await publish(admin, build(4))
    async with following(client, tmp_path / "snapshots") as holder:
        await until(runs(holder, 4), "version 4")
        await admin.flushall()
        await publish(admin, build(3))
        await publish(admin, build(5, routes=route_named("five")))
        await until(runs(holder, 5), "version 5")


async def test_a_restarted_empty_store_is_followed_again(
    own_store: OwnStore, client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await publish(admin, build(1))
    async with following(client, tmp_path / "snapshots") as holder:
        await until(runs(holder, 1), "version 1")
        own_store.restart()
        with suppress(*STORE_TROUBLE):
            await admin.ping()
        await publish(admin, build(2, routes=route_named("two")))
        await until(runs(holder, 2), "version 2")


async def test_a_copy_that_was_tampered_with_is_not_served(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    folder = tmp_path / "snapshots"
    published = build(1)
    await DiskSource(folder, DATA_KEY).keep(published.sealed, Sections(published.sections))
    victim = folder / "sections" / published.manifest.sections["routes"]
    victim.write_bytes(victim.read_bytes()[:-1] + b"]")
    async with following(client, folder) as holder:
        await until(lambda: holder.applied.refused_why is not None, "the refusal")
        assert holder.applied == Applied(None, None, 1, "a section's seal does not match")
        await publish(admin, published)
        await until(runs(holder, 1), "the store's version")


class Sections:
    """A source that has these sections only."""

    def __init__(self, sections: object) -> None:
        self._sections: dict[str, bytes] = dict(sections)  # type: ignore[call-overload]

    async def manifest(self) -> bytes | None:
        return None

    async def section(self, digest: str) -> bytes | None:
        return self._sections.get(digest)


async def test_a_slower_process_does_not_put_an_older_copy_over_a_newer(tmp_path: Path) -> None:
    one, two = DiskSource(tmp_path, DATA_KEY), DiskSource(tmp_path, DATA_KEY)
    old, new = build(1), build(2, routes=route_named("two"))
    await one.keep(new.sealed, Sections(new.sections))
    await two.keep(old.sealed, Sections(old.sections))
    assert await one.manifest() == new.sealed
    assert on_disk(tmp_path) == files_of(dict(new.manifest.sections))


async def test_processes_that_keep_at_once_leave_one_whole_copy(tmp_path: Path) -> None:
    versions = [build(n, routes=route_named(f"r{n}")) for n in range(1, 9)]
    disks = [DiskSource(tmp_path, DATA_KEY) for _ in versions]
    await asyncio.gather(
        *(
            disk.keep(one.sealed, Sections(one.sections))
            for disk, one in zip(disks, versions, strict=True)
        ),
        return_exceptions=True,
    )
    await disks[0].keep(versions[-1].sealed, Sections(versions[-1].sections))
    assert await disks[0].manifest() == versions[-1].sealed
    assert on_disk(tmp_path) == files_of(dict(versions[-1].manifest.sections))


async def test_an_origin_without_a_section_leaves_the_old_copy_whole(tmp_path: Path) -> None:
    disk = DiskSource(tmp_path, DATA_KEY)
    old, new = build(1), build(2, routes=route_named("two"))
    await disk.keep(old.sealed, Sections(old.sections))
    with pytest.raises(SourceFault, match="a section is missing"):
        await disk.keep(new.sealed, Sections({}))
    assert await disk.manifest() == old.sealed
    assert on_disk(tmp_path) == files_of(dict(old.manifest.sections))


async def test_a_disk_that_takes_nothing_does_not_stop_the_following(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    await publish(admin, build(1))
    with capture_logs() as logs:
        async with following(client, blocked / "snapshots") as holder:
            await until(runs(holder, 1), "version 1")
            await publish(admin, build(2, routes=route_named("two")))
            await until(runs(holder, 2), "version 2")
    assert outages(logs) == 0
    assert sum(entry["event"] == "snapshot not kept on disk" for entry in logs) == 1

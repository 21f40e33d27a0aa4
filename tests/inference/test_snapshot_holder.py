"""The holder takes what is newer and good, refuses what is bad, and keeps the last good one."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from inference.contract.codec import encode_manifest, encode_section
from inference.contract.kinds import Provisioner
from inference.contract.sealing import content_digest, seal
from inference.contract.snapshot import ConfigSnapshot, KeyDigest, Manifest, PriceRecord
from inference.contract.vitals import Applied
from inference.snapshots.holder import SnapshotHolder
from tests.inference.publishing import (
    DATA_KEY,
    KEY,
    KEY_ID,
    KEYS_SECTION,
    MODEL,
    POOL,
    ROUTE,
    Published,
    build,
    route_named,
)


class Shelf:
    """A source in memory that counts what is asked for."""

    def __init__(self, published: Published | None = None) -> None:
        self.sealed: bytes | None = None
        self.sections: dict[str, bytes] = {}
        self.asked: list[str] = []
        if published is not None:
            self.put(published)

    def put(self, published: Published) -> None:
        self.sealed = published.sealed
        self.sections |= published.sections

    async def manifest(self) -> bytes | None:
        return self.sealed

    async def section(self, digest: str) -> bytes | None:
        self.asked.append(digest)
        return self.sections.get(digest)


async def test_nothing_is_held_until_something_good_came() -> None:
    holder = SnapshotHolder(DATA_KEY)
    assert await holder.take(Shelf()) is None
    assert holder.current is None
    assert holder.applied == Applied()


async def test_a_good_snapshot_is_taken_whole() -> None:
    holder = SnapshotHolder(DATA_KEY)
    published = build(1)
    assert await holder.take(Shelf(published)) == published.sealed
    snapshot = await asyncio.wait_for(holder.wait_ready(), 1)
    assert snapshot is holder.current
    assert (snapshot.lineage, snapshot.version) == ("L1", 1)
    assert snapshot.routes == {("org_a", "chat"): ROUTE}
    assert snapshot.keys == {KEYS_SECTION.removeprefix("keys/"): {KEY_ID: KEY}}
    assert holder.applied == Applied("L1", 1)


async def test_whoever_waits_is_woken_by_the_first_one() -> None:
    holder = SnapshotHolder(DATA_KEY)
    waiting = asyncio.create_task(holder.wait_ready())
    await asyncio.sleep(0)
    await holder.take(Shelf(build(1)))
    assert (await asyncio.wait_for(waiting, 1)).version == 1


async def test_listeners_hear_every_swap_once_and_late_ones_the_current() -> None:
    holder = SnapshotHolder(DATA_KEY)
    early: list[int] = []
    late: list[int] = []
    holder.subscribe(lambda snapshot: early.append(snapshot.version))
    shelf = Shelf(build(1))
    await holder.take(shelf)
    await holder.take(shelf)
    holder.subscribe(lambda snapshot: late.append(snapshot.version))
    shelf.put(build(2, routes=route_named("other")))
    await holder.take(shelf)
    assert (early, late) == ([1, 2], [1, 2])


async def test_a_listener_sees_the_new_snapshot_as_current() -> None:
    holder = SnapshotHolder(DATA_KEY)
    seen: list[bool] = []
    holder.subscribe(lambda snapshot: seen.append(holder.current is snapshot))
    await holder.take(Shelf(build(1)))
    assert seen == [True]


async def test_only_what_changed_is_fetched_and_the_rest_is_the_same_object() -> None:
    holder = SnapshotHolder(DATA_KEY)
    shelf = Shelf(build(1))
    await holder.take(shelf)
    first = holder.current
    assert first is not None
    assert len(shelf.asked) == 6
    shelf.asked.clear()
    second = build(2, routes=route_named("other"))
    shelf.put(second)
    await holder.take(shelf)
    assert shelf.asked == [second.manifest.sections["routes"]]
    assert holder.current is not None
    assert holder.current.pools is first.pools
    assert holder.current.models is first.models
    bucket = KEYS_SECTION.removeprefix("keys/")
    assert holder.current.keys[bucket] is first.keys[bucket]
    assert list(holder.current.routes) == [("org_a", "other")]


async def test_an_older_or_equal_version_is_passed_over_in_silence() -> None:
    holder = SnapshotHolder(DATA_KEY)
    await holder.take(Shelf(build(5)))
    with capture_logs() as logs:
        for version in (4, 5):
            assert await holder.take(Shelf(build(version, routes=route_named("x")))) is None
    assert logs == []
    assert holder.applied == Applied("L1", 5)


@pytest.mark.parametrize(
    ("lineage", "version", "taken"), [("L2", 1, True), ("L0", 900, False), ("L1", 10, True)]
)
async def test_a_newer_lineage_wins_whatever_its_version(
    lineage: str, version: int, taken: bool
) -> None:
    holder = SnapshotHolder(DATA_KEY)
    await holder.take(Shelf(build(9)))
    await holder.take(Shelf(build(version, lineage=lineage)))
    assert holder.applied == (Applied(lineage, version) if taken else Applied("L1", 9))


async def refused(published: Published) -> tuple[SnapshotHolder, Shelf]:
    """A holder that runs version 1 and was offered a bad one."""
    holder = SnapshotHolder(DATA_KEY, own_ports=frozenset({8300}))
    shelf = Shelf(build(1))
    await holder.take(shelf)
    shelf.put(published)
    assert await holder.take(shelf) is None
    assert holder.current is not None
    assert holder.current.version == 1
    return holder, shelf


LOST = replace(ROUTE, targets=(replace(ROUTE.targets[0], pool_id="pool_x"),))
FAKE = replace(POOL, provisioner=Provisioner.FAKE)
OWN_PORT = replace(POOL, addresses=("http://127.0.0.1:8300/v1",))
PRICES = (
    PriceRecord("prc_1", "org_a", "mdl_a", 1, 1),
    PriceRecord("prc_1", "org_a", "mdl_a", 2, 2),
)

BAD = [
    (build(2, routes=(LOST,)), 2, "routes rt_a targets.0.pool_id: There is no such pool."),
    (
        build(2, pools=(OWN_PORT,)),
        2,
        "pools pool_a addresses.0: The address points at port 8300 of this installation.",
    ),
    (
        build(2, models=(MODEL, replace(MODEL, id="mdl_2"))),
        2,
        "models mdl_a name: The organisation has this name twice. (and 1 more)",
    ),
    (
        build(2, **{KEYS_SECTION: (replace(KEY, digests=(KeyDigest(1, "é" * 64),)),)}),
        2,
        f"keys {KEY_ID} digests.0.digest: A digest is 64 lower-case hexadecimal digits.",
    ),
    (
        build(2, pools=(FAKE,)),
        2,
        "pools pool_a provisioner: The host does not allow this; see HEADWORKS_ALLOW_FAKE_WORKERS.",
    ),
    (build(2, prices=PRICES), 2, "section prices holds two records for one place"),
    (build(2, without=["pools"]), 2, "sections missing: pools"),
    (build(2, rumours=()), 2, "section rumours cannot be read: unknown section rumours"),
    (build(2, data_key=bytes(32)), None, "the manifest cannot be read: the seal does not match"),
]


@pytest.mark.parametrize(("published", "version", "why"), BAD, ids=range(len(BAD)))
async def test_a_bad_snapshot_is_refused_once_and_the_last_good_one_stays(
    published: Published, version: int | None, why: str
) -> None:
    with capture_logs() as logs:
        holder, shelf = await refused(published)
        shelf.asked.clear()
        assert await holder.take(shelf) is None
    assert shelf.asked == []
    assert holder.applied == Applied("L1", 1, version, why)
    assert [entry["why"] for entry in logs if entry["event"] == "snapshot refused"] == [why]


async def test_fake_workers_are_taken_where_the_host_allows_them() -> None:
    holder = SnapshotHolder(DATA_KEY, allow_fake_workers=True)
    await holder.take(Shelf(build(1, pools=(FAKE,))))
    assert holder.applied == Applied("L1", 1)


async def test_a_section_broken_by_another_sections_change_is_found() -> None:
    holder, _ = await refused(build(2, pools=()))
    assert holder.applied.refused_why == "routes rt_a targets.0.pool_id: There is no such pool."


async def test_an_unreadable_document_is_refused() -> None:
    payload = b'{"v":9,"d":[]}'
    digest = content_digest(payload)
    good = build(2)
    manifest = replace(good.manifest, sections={**good.manifest.sections, "routes": digest})
    sections = {**good.sections, digest: seal(DATA_KEY, payload)}
    published = Published(manifest, seal(DATA_KEY, encode_manifest(manifest)), sections)
    holder, _ = await refused(published)
    assert holder.applied.refused_why == (
        "section routes cannot be read: no reader for section:routes version 9"
    )


async def test_a_better_version_clears_the_refusal() -> None:
    holder, shelf = await refused(build(2, routes=(LOST,)))
    shelf.put(build(3, routes=route_named("good")))
    await holder.take(shelf)
    assert holder.applied == Applied("L1", 3)


@pytest.mark.parametrize(("lineage", "version"), [("L1", 1), ("L1", 0), ("L0", 9)])
async def test_going_back_to_what_runs_or_ran_clears_the_refusal(
    lineage: str, version: int
) -> None:
    holder, shelf = await refused(build(2, routes=(LOST,)))
    shelf.put(build(version, lineage=lineage))
    await holder.take(shelf)
    assert holder.applied == Applied("L1", 1)


def damaged(kind: str, published: Published) -> dict[str, bytes]:
    """The sections of a version with its routes missing, unsealed or exchanged."""
    digest = published.manifest.sections["routes"]
    other = seal(DATA_KEY, encode_section(route_named("smuggled")))
    instead = {"absent": None, "unsealed": b"x" + published.sections[digest], "other": other}[kind]
    kept = {name: sealed for name, sealed in published.sections.items() if name != digest}
    return kept if instead is None else kept | {digest: instead}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("absent", "a section is missing"),
        ("unsealed", "a section's seal does not match"),
        ("other", "a section is not what the manifest names"),
    ],
)
async def test_a_sources_fault_is_tried_again_until_it_is_mended(kind: str, why: str) -> None:
    published = build(2, routes=route_named("good"))
    shelf = Shelf(build(1))
    holder = SnapshotHolder(DATA_KEY)
    await holder.take(shelf)
    shelf.sealed = published.sealed
    shelf.sections = damaged(kind, published)
    with capture_logs() as logs:
        for _ in range(3):
            assert await holder.take(shelf) is None
    assert holder.applied == Applied("L1", 1, 2, why)
    assert len(logs) == 1
    shelf.put(published)
    await holder.take(shelf)
    assert holder.applied == Applied("L1", 2)


async def test_the_loop_turns_between_sections() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await SnapshotHolder(DATA_KEY).take(Shelf(build(1)))
    counting.cancel()
    assert turns >= 6


async def test_the_loop_turns_within_a_large_section_and_while_an_old_one_goes() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def large(version: int) -> Published:
        routes = tuple(
            replace(ROUTE, id=f"rt_{number}", name=f"m{number}", max_attempts=version)
            for number in range(1_000)
        )
        return build(version, routes=routes)

    holder, shelf = SnapshotHolder(DATA_KEY), Shelf(large(1))
    counting = asyncio.create_task(count_turns())
    for version in (1, 2):
        shelf.put(large(version))
        before = turns
        assert await holder.take(shelf)
        assert turns - before >= 2 * 1_000 / 50  # as it is decoded, and as it is checked
    assert await holder.take(shelf) is None
    assert holder._retired == []
    counting.cancel()


async def test_nobody_sees_half_a_snapshot() -> None:
    holder = SnapshotHolder(DATA_KEY)
    shelf = Shelf(build(1))
    await holder.take(shelf)
    seen: set[tuple[int, str]] = set()

    def note(snapshot: ConfigSnapshot) -> None:
        names: Iterable[tuple[str, str]] = snapshot.routes
        seen.update((snapshot.version, name) for _, name in names)

    async def watch() -> None:
        while True:
            assert holder.current is not None
            note(holder.current)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    for version in (2, 3):
        shelf.put(build(version, routes=route_named(f"r{version}")))
        await holder.take(shelf)
        await asyncio.sleep(0)
    watching.cancel()
    assert seen == {(1, "chat"), (2, "r2"), (3, "r3")}


async def test_a_manifest_is_read_only_with_its_seal() -> None:
    manifest = Manifest("L9", 99, {}, 0.0)
    shelf = Shelf(build(1))
    shelf.sealed = encode_manifest(manifest)
    holder = SnapshotHolder(DATA_KEY)
    assert await holder.take(shelf) is None
    assert holder.current is None

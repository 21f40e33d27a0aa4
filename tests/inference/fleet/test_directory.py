"""One writer at a time, many readers, and nobody forgets what it read last."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract import wire
from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import WorkerState
from inference.fleet.directory import DirectoryReader, DirectoryWriter, directory_path
from inference.store import STORE_TROUBLE
from tests.inference.stores import OwnStore, until

KEY = bytes(32)
ENTRY = WorkerEntry("pool_a-0", "pool_a", "http://127.0.0.1:8501/v1", WorkerState.READY, 5.0)
FIRST = Directory(fencing_token=1, generation=1, written_at=10.0, workers=(ENTRY,))
SECOND = replace(FIRST, generation=2, workers=(replace(ENTRY, state=WorkerState.DRAINING),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return directory_path(tmp_path / "writer")


@pytest.fixture
def writer(client: Redis, path: Path) -> DirectoryWriter:
    return DirectoryWriter(client, data_key=KEY, path=path)


@pytest.fixture
def reader_path(tmp_path: Path) -> Path:
    return directory_path(tmp_path / "reader")


@pytest.fixture
def reader(client: Redis, reader_path: Path) -> DirectoryReader:
    return DirectoryReader(client, data_key=KEY, path=reader_path)


@pytest.fixture
async def following(reader: DirectoryReader) -> AsyncIterator[DirectoryReader]:
    """The reader, following in the background."""
    task = asyncio.create_task(reader.follow())
    yield reader
    task.cancel()
    await asyncio.wait([task])


async def test_a_follower_sees_each_change_and_tells_its_listeners(
    following: DirectoryReader, writer: DirectoryWriter
) -> None:
    seen: list[Directory] = []
    following.subscribe(seen.append)
    assert await writer.write(FIRST)
    await until(lambda: following.current == FIRST, "the first directory")
    assert await writer.write(SECOND)
    await until(lambda: following.current == SECOND, "the second directory")
    assert seen == [FIRST, SECOND]


async def test_the_same_directory_again_is_no_change(
    reader: DirectoryReader, writer: DirectoryWriter
) -> None:
    seen: list[Directory] = []
    reader.subscribe(seen.append)
    for _ in range(2):
        assert await writer.write(FIRST)
        await reader.refresh()
    assert seen == [FIRST]


async def test_an_overtaken_writer_is_refused_even_before_its_successor_has_written(
    client: Redis, writer: DirectoryWriter, reader: DirectoryReader
) -> None:
    await client.set(wire.FENCING, 1)
    assert await writer.write(FIRST)
    await client.set(wire.FENCING, 2)
    assert not await writer.write(SECOND)
    assert await writer.write(replace(SECOND, fencing_token=2))
    assert not await writer.write(replace(FIRST, generation=99))
    await reader.refresh()
    assert reader.current == replace(SECOND, fencing_token=2)


async def test_a_refused_writer_leaves_the_disk_alone(
    client: Redis, writer: DirectoryWriter, path: Path
) -> None:
    await writer.write(FIRST)
    kept = content(path)
    await client.set(wire.FENCING, 2)
    await writer.write(SECOND)
    assert content(path) == kept


async def test_a_reader_starts_from_its_disk_without_a_store(
    own_store: OwnStore,
    client: Redis,
    reader: DirectoryReader,
    reader_path: Path,
    writer: DirectoryWriter,
) -> None:
    await writer.write(FIRST)
    await reader.refresh()
    own_store.freeze()
    later = DirectoryReader(client, data_key=KEY, path=reader_path)
    task = asyncio.create_task(later.follow())
    await until(lambda: later.current == FIRST, "the directory on disk")
    task.cancel()
    await asyncio.wait([task])


async def test_the_last_directory_stays_through_an_outage_and_a_loss_of_the_store(
    own_store: OwnStore, client: Redis, reader: DirectoryReader, writer: DirectoryWriter
) -> None:
    await writer.write(SECOND)
    await reader.refresh()
    own_store.freeze()
    await reader.refresh()
    assert reader.current == SECOND
    own_store.thaw()
    own_store.restart()
    await until(lambda: answers(client), "the new store")
    await reader.refresh()
    assert reader.current == SECOND
    await writer.write(replace(SECOND, generation=3))
    await reader.refresh()
    assert reader.current == replace(SECOND, generation=3)


async def test_an_older_directory_is_taken_only_if_it_stays(
    client: Redis, reader: DirectoryReader, writer: DirectoryWriter, reader_path: Path, admin: Redis
) -> None:
    patient = DirectoryReader(client, data_key=KEY, path=reader_path)
    await writer.write(replace(FIRST, fencing_token=8))
    await patient.refresh()
    await admin.flushall()
    await writer.write(SECOND)
    with capture_logs() as logs:
        await patient.refresh()
        await patient.refresh()
    assert patient.current == replace(FIRST, fencing_token=8)
    assert [entry["event"] for entry in logs] == ["directory in the store is older than ours"]
    kept = DirectoryReader(client, data_key=KEY, path=reader_path, older_s=0.0)
    kept.load()
    assert kept.current == replace(FIRST, fencing_token=8)
    await kept.refresh()
    assert kept.current == SECOND


async def test_who_holds_the_lease_writes_whatever_the_counter_lost(
    client: Redis, writer: DirectoryWriter, reader: DirectoryReader, admin: Redis
) -> None:
    old = replace(FIRST, fencing_token=7)
    assert await writer.write(old)
    await admin.flushall()
    await client.set(wire.FENCING, 4)
    await client.set(wire.LEADER, "4:b")
    assert not await writer.write(replace(old, generation=2))
    assert await writer.write(replace(FIRST, fencing_token=4))
    await admin.hset(wire.DIRECTORY, "token", "9")  # type: ignore[misc]
    assert await writer.write(replace(SECOND, fencing_token=4))
    await reader.refresh()
    assert reader.current == replace(SECOND, fencing_token=4)


async def test_who_stands_by_keeps_the_directory_on_a_disk_of_its_own(
    client: Redis, writer: DirectoryWriter, tmp_path: Path, admin: Redis
) -> None:
    standby = DirectoryWriter(client, data_key=KEY, path=directory_path(tmp_path / "standby"))
    assert await standby.watch() == 0
    await writer.write(replace(SECOND, fencing_token=8))
    assert await standby.watch() == 8
    await admin.flushall()
    assert (await standby.watch(), standby.kept_token()) == (0, 8)
    assert await standby.last() == replace(SECOND, fencing_token=8)


def content(path: Path) -> bytes:
    return path.read_bytes()


def shorten(path: Path) -> None:
    """Take the last byte off a file."""
    path.write_bytes(path.read_bytes()[:-1])


async def answers(client: Redis) -> bool:
    try:
        return bool(await client.ping())
    except STORE_TROUBLE:
        return False


async def test_what_others_wrote_is_refused_and_the_last_one_stays(
    client: Redis, reader: DirectoryReader, writer: DirectoryWriter, tmp_path: Path
) -> None:
    await writer.write(FIRST)
    await reader.refresh()
    stranger = DirectoryWriter(client, data_key=b"x" * 32, path=tmp_path / "stranger")
    await stranger.write(SECOND)
    with capture_logs() as logs:
        await reader.refresh()
        await reader.refresh()
    assert [entry["event"] for entry in logs] == ["directory refused"]
    assert reader.current == FIRST


async def test_a_torn_copy_on_disk_is_passed_over(
    client: Redis, writer: DirectoryWriter, path: Path
) -> None:
    await writer.write(FIRST)
    shorten(path)
    assert writer.kept_token() == 0
    reader = DirectoryReader(client, data_key=KEY, path=path)
    reader.load()
    assert reader.current is None


async def test_the_writer_goes_on_from_the_newer_of_store_and_disk(
    own_store: OwnStore, client: Redis, writer: DirectoryWriter, path: Path
) -> None:
    assert await writer.last() is None
    await writer.write(SECOND)
    own_store.restart()
    await until(lambda: answers(client), "the new store")
    assert await writer.last() == SECOND
    assert writer.kept_token() == 1
    shorten(path)
    assert await writer.last() is None


async def test_without_a_store_a_write_is_trouble_and_the_disk_stays(
    own_store: OwnStore, writer: DirectoryWriter, path: Path
) -> None:
    await writer.write(FIRST)
    own_store.freeze()
    with pytest.raises(STORE_TROUBLE):
        await writer.write(SECOND)
    reader = DirectoryReader(writer._client, data_key=KEY, path=path)
    reader.load()
    assert reader.current == FIRST


async def test_a_disk_that_takes_nothing_costs_the_copy_alone(
    client: Redis, tmp_path: Path, reader: DirectoryReader
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    writer = DirectoryWriter(client, data_key=KEY, path=blocked / "directory")
    with capture_logs() as logs:
        assert await writer.write(FIRST)
    assert [entry["event"] for entry in logs] == ["directory not kept on disk"]
    await reader.refresh()
    assert reader.current == FIRST

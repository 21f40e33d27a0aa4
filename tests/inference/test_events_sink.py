"""The sink hands every end to the stream, in order, at least once, whatever the store does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract import wire
from inference.events.sink import Sink
from inference.journal import Journal, segment_name, segments_of
from tests.inference.facts import end, ends_of, opening
from tests.inference.ledger import numbers, record, running, seed, streamed
from tests.inference.stores import OwnStore, until

IDLE_S = 0.05


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal.create(tmp_path / "journals", segment_bytes=6_300)
    yield journal
    journal.release()


def holds(admin: Redis, expected: list[int]) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return await numbers(admin) == expected

    return condition


def holds_all(admin: Redis, expected: set[int]) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return set(await numbers(admin)) == expected

    return condition


async def write(journal: Journal, count: int) -> None:
    for _ in range(count):
        await journal.close(end(journal.seq + 1))


def names(journal: Journal) -> list[str]:
    return [path.name for path in segments_of(journal.folder)]


async def test_ends_arrive_as_written_and_openings_stay(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=3_600)):
        await journal.open(opening(1))
        assert [await journal.close(end(n)) for n in (1, 2)] == [1, 2]
        await until(holds(admin, [1, 2]), "two ends")
        await journal.close(end(3))
        await until(holds(admin, [1, 2, 3]), "the third end")
        await until(lambda: journal.backlog == 0, "its mark")
    assert await streamed(admin) == ends_of(journal.folder)


async def test_many_ends_over_many_segments_arrive_once_and_in_order(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await asyncio.gather(*(journal.close(end(n)) for n in range(2_000)))
        await write(journal, 20)
        await until(holds(admin, list(range(1, 2_021))), "all ends")


async def test_feeding_stops_at_the_bound_and_goes_on_below_it(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, max_entries=1, idle_s=IDLE_S)):
        await write(journal, 1)
        await until(holds(admin, [1]), "the first end")
        await write(journal, 3)
        await asyncio.wait_for(journal.close(end(5)), 5)
        await until(lambda: journal.backlog == 4, "a backlog")
        assert await numbers(admin) == [1]
        seen: list[int] = []

        async def is_all_recorded() -> bool:
            seen.extend(one.seq for one in await record(admin))
            return seen == [1, 2, 3, 4, 5]

        await until(is_all_recorded, "the rest")
    assert journal.backlog == 0


async def test_an_unseeded_store_gets_nothing(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    with capture_logs() as logs:
        async with running(Sink(journal, client, idle_s=IDLE_S)):
            await write(journal, 2)
            await until(lambda: len(logs) == 1, "the wait to be logged")
            assert await numbers(admin) == []
            assert journal.backlog == 2
            await seed(admin)
            await until(holds(admin, [1, 2]), "both ends")


@pytest.mark.parametrize("loss", ["flushed", "restarted"])
async def test_a_store_that_lost_the_stream_is_fed_again(
    journal: Journal, own_store: OwnStore, client: Redis, loss: str
) -> None:
    admin = await fresh_admin(own_store)
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 3)
        await until(holds(admin, [1, 2, 3]), "three ends")
        if loss == "flushed":
            await admin.flushall()
        else:
            own_store.restart()
            await admin.aclose()
            admin = await fresh_admin(own_store)
        await write(journal, 1)
        await seed(admin, seeded_at="2")
        await until(holds(admin, [1, 2, 3, 4]), "all ends again")
    await admin.aclose()


async def fresh_admin(own_store: OwnStore) -> Redis:
    client: Redis = Redis.from_url(own_store.admin_url)
    return client


async def test_a_rolled_back_store_seeded_as_before_is_known_by_its_run(
    journal: Journal, own_store: OwnStore, client: Redis
) -> None:
    admin = await fresh_admin(own_store)
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 2)
        await until(holds(admin, [1, 2]), "two ends")
        own_store.restart()
        await admin.aclose()
        admin = await fresh_admin(own_store)
        await seed(admin)
        await until(holds(admin, [1, 2]), "both again")
    await admin.aclose()


async def test_what_is_recorded_is_not_fed_again(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 3)
        await until(holds(admin, [1, 2, 3]), "three ends")
        await record(admin)
        await write(journal, 1)
        await until(holds(admin, [4]), "the fourth end")
        await seed(admin, seeded_at="2")
        await until(holds(admin, [4, 4]), "the fourth end again")


async def test_a_store_seeded_anew_is_told_where_the_journal_begins_before_it_is_fed(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 10)
        await until(holds(admin, list(range(1, 11))), "all ends")
        before = names(journal)
        await admin.hset(wire.JOURNAL_MARKS, journal.journal_id, "4")  # type: ignore[misc]
        await until(lambda: names(journal) == before[1:], "the first segment to go")
        await admin.flushall()
        await seed(admin, seeded_at="2")

        async def is_fed() -> bool:
            return await admin.xlen(wire.USAGE_STREAM) == 7

        await until(is_fed, "a start and six ends")
    (_, first), *rest = await admin.xrange(wire.USAGE_STREAM)
    assert first == {wire.USAGE_START_FIELD.encode(): f"{journal.journal_id} 4".encode()}
    assert [tuple(fields) for _, fields in rest] == [(wire.USAGE_FIELD.encode(),)] * 6


async def test_segments_go_when_recorded_but_never_the_newest(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 10)
        await until(holds(admin, list(range(1, 11))), "all ends")
        before = names(journal)
        assert len(before) == 3
        await admin.hset(wire.JOURNAL_MARKS, journal.journal_id, "4")  # type: ignore[misc]
        await until(lambda: names(journal) == before[1:], "the first segment to go")
        await record(admin)
        await admin.hset(wire.JOURNAL_MARKS, journal.journal_id, "10")  # type: ignore[misc]
        await until(lambda: names(journal) == before[2:], "all but the newest to go")
        await write(journal, 1)
        await until(holds(admin, [11]), "the next end")


async def test_an_open_request_survives_the_deletion_of_its_segment(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await journal.open(opening(0))
        await write(journal, 5)
        await until(lambda: len(names(journal)) == 2, "a second segment")
        await until(holds(admin, [1, 2, 3, 4, 5]), "all ends")
        await record(admin)
        await until(lambda: names(journal) == [segment_name(2)], "the first segment to go")
    assert b"O " in segments_of(journal.folder)[0].read_bytes()


async def test_a_frozen_store_holds_no_request_up_and_loses_nothing(
    journal: Journal, own_store: OwnStore, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    with capture_logs() as logs:
        async with running(Sink(journal, client, idle_s=IDLE_S)):
            await write(journal, 2)
            await until(holds(admin, [1, 2]), "two ends")
            own_store.freeze()
            async with asyncio.timeout(1):
                await write(journal, 100)
            await until(lambda: events(logs) == ["state store unavailable"], "the outage")
            async with asyncio.timeout(1):
                await write(journal, 100)
            own_store.thaw()
            await until(holds_all(admin, set(range(1, 203))), "all ends")
            await until(lambda: journal.backlog == 0, "no backlog")
    assert events(logs) == ["state store unavailable", "state store available again"]


def events(logs: list[object]) -> list[str]:
    return [dict(entry)["event"] for entry in logs]  # type: ignore[call-overload]


async def test_a_store_that_comes_late_gets_everything(
    journal: Journal, own_store: OwnStore, client: Redis
) -> None:
    own_store.stop()
    async with running(Sink(journal, client, idle_s=IDLE_S)):
        await write(journal, 5)
        own_store.restart()
        admin = await fresh_admin(own_store)
        await seed(admin)
        await until(holds(admin, [1, 2, 3, 4, 5]), "all ends")
        await admin.aclose()


async def test_a_full_store_is_trouble_and_is_fed_when_there_is_room(
    journal: Journal, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    await admin.config_set("maxmemory", "1")
    with capture_logs() as logs:
        async with running(Sink(journal, client, idle_s=IDLE_S)):
            await write(journal, 2)
            await until(lambda: events(logs) == ["state store unavailable"], "the refusal")
            await admin.config_set("maxmemory", "0")
            await until(holds(admin, [1, 2]), "both ends")

"""Vitals are written every period and when asked, live five seconds, and outlast outages."""

import asyncio
from dataclasses import replace

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract.codec import decode_vitals
from inference.contract.vitals import Vitals
from inference.contract.wire import SEEN, vitals_key
from inference.vitals import SEEN_S, VitalsWriter
from tests.contract.samples import VITALS
from tests.inference.ledger import running
from tests.inference.stores import OwnStore, until

PROCESS = VITALS.process
KEY = vitals_key(PROCESS)


class Process:
    """Counts the records it was asked for."""

    def __init__(self) -> None:
        self.records = 0

    def __call__(self) -> Vitals:
        self.records += 1
        return replace(VITALS, arrivals_total=self.records)


async def written(admin: Redis) -> Vitals | None:
    data = await admin.get(KEY)
    return None if data is None else decode_vitals(data)


async def test_a_record_is_written_whole_and_lives_five_seconds(
    client: Redis, admin: Redis
) -> None:
    await VitalsWriter(client, PROCESS, lambda: VITALS).write()
    assert await written(admin) == VITALS
    assert 4_000 < await admin.pttl(KEY) <= 5_000


async def test_the_first_is_written_at_once_and_the_next_on_demand(
    client: Redis, admin: Redis
) -> None:
    process = Process()
    writer = VitalsWriter(client, PROCESS, process, period_s=3_600)
    async with running(writer):
        await until(lambda: process.records == 1, "the first record")
        writer.write_soon()
        await until(lambda: process.records == 2, "the second record")

        async def is_there() -> bool:
            record = await written(admin)
            return record is not None and record.arrivals_total == 2

        await until(is_there, "the second record in the store")
    assert process.records == 2


async def test_without_demand_one_is_written_every_period(client: Redis) -> None:
    process = Process()
    async with running(VitalsWriter(client, PROCESS, process, period_s=0.02)):
        await until(lambda: process.records >= 4, "four records")


async def seen(admin: Redis) -> dict[bytes, float]:
    return dict(await admin.zrange(SEEN, 0, -1, withscores=True))


async def store_time(admin: Redis) -> float:
    seconds, microseconds = await admin.time()
    return float(seconds) + float(microseconds) / 1_000_000


async def test_who_writes_is_seen_as_of_its_last_record(client: Redis, admin: Redis) -> None:
    await admin.zadd(SEEN, {PROCESS: await store_time(admin) - 60})
    before = await store_time(admin)
    await VitalsWriter(client, PROCESS, lambda: VITALS).write()
    assert before <= (await seen(admin))[PROCESS.encode()] <= await store_time(admin)


async def test_who_fell_silent_is_seen_for_an_hour(client: Redis, admin: Redis) -> None:
    now = await store_time(admin)
    silent = {"gone": now - SEEN_S - 1, "long-gone": 0.0, "missed": now - SEEN_S + 60}
    await admin.zadd(SEEN, silent)
    await VitalsWriter(client, PROCESS, lambda: VITALS).write()
    assert (await seen(admin)).keys() == {b"missed", PROCESS.encode()}


@pytest.mark.parametrize("skew_s", [-7_200, 7_200])
async def test_a_writer_whose_clock_is_wrong_is_seen_now_and_makes_nobody_forgotten(
    client: Redis, admin: Redis, skew_s: float
) -> None:
    before = await store_time(admin)
    await VitalsWriter(client, "another", lambda: VITALS).write()
    skewed = replace(VITALS, written_at=before + skew_s)
    await VitalsWriter(client, PROCESS, lambda: skewed).write()
    now = await store_time(admin)
    assert {name: before <= at <= now for name, at in (await seen(admin)).items()} == {
        b"another": True,
        PROCESS.encode(): True,
    }


async def test_one_that_was_renamed_leaves_its_name_to_whoever_follows(
    client: Redis, admin: Redis
) -> None:
    orphan, heir = (VitalsWriter(client, PROCESS, lambda: VITALS) for _ in range(2))
    await orphan.write()
    orphan.rename("orphan")
    await orphan.write()
    await heir.write()
    record = decode_vitals(await admin.get(vitals_key("orphan")))
    assert record == replace(VITALS, process="orphan")
    await orphan.sign_off()
    assert await written(admin) == VITALS
    assert (await seen(admin)).keys() == {PROCESS.encode()}


async def test_a_clean_stop_takes_away_the_record_and_that_it_was_seen(
    client: Redis, admin: Redis
) -> None:
    writer = VitalsWriter(client, PROCESS, lambda: VITALS)
    await writer.write()
    await admin.zadd(SEEN, {"another": VITALS.written_at})
    await writer.sign_off()
    assert await written(admin) is None
    assert await seen(admin) == {b"another": VITALS.written_at}


@pytest.mark.slow
async def test_a_frozen_store_is_logged_once_and_written_to_when_thawed(
    own_store: OwnStore, client: Redis, admin: Redis
) -> None:
    process = Process()
    with capture_logs() as logs:
        async with running(VitalsWriter(client, PROCESS, process, period_s=0.02)):
            await until(lambda: process.records >= 1, "a record")
            own_store.freeze()
            await until(lambda: len(logs) == 1, "the outage")
            seen = process.records
            await until(lambda: process.records >= seen + 2, "tries to go on")
            own_store.thaw()
            await until(lambda: len(logs) == 2, "the end of the outage")
            assert await written(admin) is not None
    assert [entry["event"] for entry in logs] == [
        "state store unavailable",
        "state store available again",
    ]


async def test_signing_off_from_a_frozen_store_does_not_hang(
    own_store: OwnStore, client: Redis
) -> None:
    writer = VitalsWriter(client, PROCESS, lambda: VITALS)
    await writer.write()
    own_store.freeze()
    await asyncio.wait_for(writer.sign_off(), 2)
    own_store.thaw()

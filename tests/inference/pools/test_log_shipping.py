"""Logs travel while somebody reads them: bounded, without secrets, and only when they change."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract import wire
from inference.contract.kinds import PoolPower
from inference.contract.sealing import worker_key
from inference.pools.log_shipping import LogShipper
from inference.pools.worker_logs import rotate_if_large
from tests.inference.clocks import HandClock
from tests.inference.pools.engines import DATA_KEY
from tests.inference.pools.rig import FAKE, READY_AFTER_S, Rig
from tests.inference.stores import OwnStore

WORKER = "pool_a-0"
KEY = wire.worker_log_key(WORKER)


@dataclass
class Desk:
    """A shipper of one worker's log, and the reader who may wish for it."""

    client: Redis
    admin: Redis
    log: Path
    clock: HandClock = field(default_factory=HandClock)

    def __post_init__(self) -> None:
        self.logs = {WORKER: self.log}
        self.shipper = LogShipper(
            self.client, logs=lambda: self.logs, data_key=DATA_KEY, clock=self.clock
        )

    async def wish(self) -> None:
        await self.admin.set(wire.worker_log_wish(WORKER), "1", ex=wire.WORKER_LOG_LIFE_S)

    async def shipped(self) -> dict[bytes, bytes]:
        return await self.admin.hgetall(KEY)  # type: ignore[misc]

    async def text(self) -> str:
        return (await self.shipped())[wire.WORKER_LOG_TEXT.encode()].decode()


@pytest.fixture
def desk(client: Redis, admin: Redis, tmp_path: Path) -> Desk:
    return Desk(client, admin, tmp_path / f"{WORKER}.log")


async def test_without_a_wish_nothing_is_shipped(desk: Desk) -> None:
    desk.log.write_text("line\n")
    await desk.shipper.step()
    assert await desk.shipped() == {}


async def test_a_wish_brings_the_tail_with_its_time_and_size(desk: Desk) -> None:
    desk.log.write_text("first\nsecond: ü\n")
    await desk.wish()
    await desk.shipper.step()
    assert await desk.shipped() == {
        b"at": b"1000000.000",
        b"size": b"17",
        b"text": "first\nsecond: ü\n".encode(),
    }
    assert 29 <= await desk.admin.ttl(KEY) <= 30


async def test_a_long_log_is_shipped_from_its_first_whole_line_in_the_last_64_kb(
    desk: Desk,
) -> None:
    lines = [f"line {number}: {'x' * 50}\n" for number in range(3000)]
    desk.log.write_text("".join(lines))
    await desk.wish()
    await desk.shipper.step()
    text = await desk.text()
    shipped = text.splitlines(keepends=True)
    assert len(text) <= wire.WORKER_LOG_TAIL_BYTES
    assert len(text) > wire.WORKER_LOG_TAIL_BYTES - 100
    assert shipped == lines[-len(shipped) :]
    assert (await desk.shipped())[b"size"] == str(desk.log.stat().st_size).encode()


async def test_a_log_of_one_endless_line_ships_nothing_of_it(desk: Desk) -> None:
    desk.log.write_bytes(b"x" * (wire.WORKER_LOG_TAIL_BYTES + 1))
    await desk.wish()
    await desk.shipper.step()
    assert await desk.text() == ""


async def test_credentials_do_not_travel(desk: Desk) -> None:
    key = worker_key(DATA_KEY, WORKER)
    desk.log.write_text(f"Authorization: Bearer abc\nhw_0123.secret-part\nkey={key}\n")
    await desk.wish()
    await desk.shipper.step()
    assert await desk.text() == "Authorization: Bearer ***\nhw_0123.***\nkey=***\n"


async def test_a_log_that_did_not_change_is_kept_alive_and_not_written_again(desk: Desk) -> None:
    desk.log.write_text("line\n")
    await desk.wish()
    await desk.shipper.step()
    desk.clock.move(20)
    await desk.admin.expire(KEY, 5)
    await desk.shipper.step()
    assert (await desk.shipped())[b"at"] == b"1000000.000"
    assert await desk.admin.ttl(KEY) > 5
    with desk.log.open("a") as file:
        file.write("more\n")
    await desk.shipper.step()
    assert (await desk.shipped())[b"at"] == b"1000020.000"
    assert await desk.text() == "line\nmore\n"


async def test_a_log_moved_aside_is_shipped_as_it_is_then(desk: Desk) -> None:
    desk.log.write_text("line\n")
    await desk.wish()
    await desk.shipper.step()
    rotate_if_large(desk.log, limit_bytes=1)
    await desk.shipper.step()
    assert (await desk.shipped())[b"size"] == b"0"


async def test_an_emptied_store_has_it_again_at_once(desk: Desk) -> None:
    desk.log.write_text("line\n")
    await desk.wish()
    await desk.shipper.step()
    await desk.admin.delete(KEY)
    await desk.shipper.step()
    assert await desk.text() == "line\n"


async def test_a_worker_that_has_printed_nothing_yet_has_an_empty_log(desk: Desk) -> None:
    await desk.wish()
    await desk.shipper.step()
    assert await desk.shipped() == {b"at": b"1000000.000", b"size": b"0", b"text": b""}
    desk.log.write_text("starts\n")
    await desk.shipper.step()
    assert await desk.text() == "starts\n"


async def test_a_wish_that_ran_out_ends_it(desk: Desk) -> None:
    desk.log.write_text("line\n")
    await desk.wish()
    await desk.shipper.step()
    await desk.admin.delete(wire.worker_log_wish(WORKER), KEY)
    await desk.shipper.step()
    assert await desk.shipped() == {}


@pytest.mark.slow
async def test_a_frozen_store_is_logged_once_and_shipped_to_when_thawed(
    desk: Desk, own_store: OwnStore
) -> None:
    desk.log.write_text("line\n")
    await desk.wish()
    with capture_logs() as logs:
        own_store.freeze()
        await desk.shipper.step()
        await desk.shipper.step()
        own_store.thaw()
        await desk.shipper.step()
    assert [entry["event"] for entry in logs] == [
        "state store unavailable",
        "state store available again",
    ]
    assert await desk.text() == "line\n"


async def test_a_log_that_cannot_be_read_counts_as_none(desk: Desk) -> None:
    os.mkdir(desk.log)
    await desk.wish()
    await desk.shipper.step()
    assert await desk.text() == ""


async def test_the_supervisor_ships_logs_of_its_workers_and_of_stopped_pools_while_it_leads(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.fake, "log_of", lambda worker_id: Path("/logs", worker_id))
    stopped = replace(FAKE, id="pool_b", power=PoolPower.STOPPED, replicas=1)
    rig.want(FAKE, stopped)
    assert rig.supervisor.logs() == {}
    await rig.look()
    names = ("pool_a-0", "pool_a-1", "pool_b-0")
    assert rig.supervisor.logs() == {name: Path("/logs", name) for name in names}
    await rig.look(READY_AFTER_S)
    rig.want(replace(FAKE, replicas=1))
    await rig.look()
    assert set(rig.supervisor.logs()) == {"pool_a-0", "pool_a-1"}
    await rig.lease.release()
    assert rig.supervisor.logs() == {}

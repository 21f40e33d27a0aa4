"""What the other processes say of workers: added up, fresh, and gone when they are."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract.codec import encode_vitals
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Vitals, WorkerGauges
from inference.contract.wire import SEEN, vitals_key
from inference.decisions.queueing import ALONE, Crowd
from inference.fleet.peers import PeerLoad, Peers, crowd_of, loads_of
from inference.vitals import VitalsWriter
from tests.contract.samples import VITALS
from tests.inference.clocks import HandClock
from tests.inference.stores import OwnStore

NOW = 1_000.0
ME = (int.from_bytes(b"g/0"), VITALS.started_at)


def gateway(process: str, inflight: Mapping[str, int], **changes: object) -> Vitals:
    plain = replace(
        VITALS,
        role=ProcessRole.GATEWAY,
        process=process,
        pid=int.from_bytes(process.encode()),
        inflight=inflight,
        prefill_tokens={},
        workers=(),
        queued={},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def supervisor(at: float, kv_used: float | None = 0.5) -> Vitals:
    gauges = WorkerGauges(worker_id="w0", pool_id="p", at=at, kv_used=kv_used)
    return gateway("pools/x", {}, role=ProcessRole.POOLS, workers=(gauges,))


def test_the_others_load_is_added_up_and_ones_own_left_out() -> None:
    records = [
        gateway("g/0", {"w0": 100}, prefill_tokens={"w0": 9_000}),
        gateway("g/1", {"w0": 2, "w1": 1}, prefill_tokens={"w0": 700}),
        gateway("h/0", {"w0": 3}, prefill_tokens={"w0": 300}),
    ]
    assert loads_of(records, own=ME, now=NOW) == {
        "w0": PeerLoad(inflight=5, prefill_tokens=1_000),
        "w1": PeerLoad(inflight=1),
    }


def test_the_crowd_is_who_is_alive_and_what_waits_at_the_others() -> None:
    records = [
        gateway("g/0", {}, queued={"p": 9}),
        gateway("g/1", {}, queued={"p": 2, "q": 1}),
        gateway("h/0", {}, queued={"p": 3}),
        supervisor(NOW),
    ]
    names = [(one.pid, one.started_at) for one in records[:3]]
    crowd = crowd_of(records, own=names[1], now=NOW)
    assert (crowd.processes, crowd.queued) == (3, {"p": 12})
    turns = {crowd_of(records, own=name, now=NOW).turn for name in names}
    assert turns == {100, 101, 102}
    assert crowd_of(records, own=names[0], now=NOW + 7).turn is None
    assert crowd_of(records[1:], own=ME, now=NOW).processes == 3


def test_a_process_that_writes_under_another_name_is_still_ourselves() -> None:
    orphan = replace(gateway("g/0", {"w0": 100}), process="g/0-198")
    successor = replace(gateway("g/0", {"w0": 2}), pid=ME[0] + 1)
    loads = loads_of([orphan, successor, gateway("g/0", {"w0": 90})], own=ME, now=NOW)
    assert loads == {"w0": PeerLoad(inflight=2)}


def test_nobody_brings_a_count_below_zero() -> None:
    records = [gateway("g/1", {"w0": -5}, prefill_tokens={"w0": -1}), gateway("h/0", {"w0": 1})]
    assert loads_of(records, own=ME, now=NOW) == {"w0": PeerLoad(inflight=1)}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (supervisor(NOW - 2.0), 0.5),
        (supervisor(NOW - 3.0), None),
        (supervisor(NOW, kv_used=None), None),
    ],
)
def test_a_cache_counts_only_while_its_figure_is_fresh(
    record: Vitals, expected: float | None
) -> None:
    loads = loads_of([record], own=ME, now=NOW)
    assert loads.get("w0", PeerLoad()).kv_used == expected


class Reading:
    """Peers read from a store, and the loads they led to."""

    def __init__(self, client: Redis, crowd: Crowd = ALONE) -> None:
        self.applied: list[Mapping[str, PeerLoad]] = []
        self.crowds: list[Crowd | None] = []
        self.stopwatch = HandClock(50.0)
        self.peers = Peers(
            client,
            ME,
            apply=self.take,
            clock=lambda: NOW,
            stopwatch=self.stopwatch,
            crowd=crowd,
        )

    def take(self, loads: Mapping[str, PeerLoad], crowd: Crowd | None) -> None:
        self.applied.append(loads)
        self.crowds.append(crowd)


async def test_loads_come_from_the_vitals_of_live_processes(client: Redis, admin: Redis) -> None:
    reading = Reading(client)
    await reading.peers.read()
    for process, inflight in (("g/0", 7), ("g/1", 2), ("h/0", 3)):
        record = gateway(process, {"w0": inflight}, written_at=NOW)
        await VitalsWriter(client, process, lambda record=record: record).write()  # type: ignore[misc]
    await admin.zadd(SEEN, {"dead/0": NOW - 60, "odd/0": NOW})
    await admin.set(vitals_key("odd/0"), b'{"v":99,"d":{}}')
    await reading.peers.read()
    await admin.delete(vitals_key("h/0"))
    for _ in range(4):
        reading.stopwatch.move(2.0)
        await reading.peers.read()
    assert reading.applied == [
        {},
        {"w0": PeerLoad(inflight=5)},
        *[{"w0": PeerLoad(inflight=2)}] * 4,
    ]
    # who is missing has not said that it is done: it counts for a while
    assert [crowd and crowd.processes for crowd in reading.crowds] == [1, 3, 3, 3, 2, 2]


async def test_without_the_store_the_last_load_stands_for_as_long_as_a_record_lives(
    client: Redis, admin: Redis, own_store: OwnStore
) -> None:
    for name, record in (("g/1", gateway("g/1", {"w0": 2})), ("pools/x", supervisor(NOW))):
        await admin.set(vitals_key(name), encode_vitals(record))
        await admin.zadd(SEEN, {name: NOW})
    reading = Reading(client)
    await reading.peers.read()
    own_store.stop()
    with capture_logs() as logs:
        for passed_s in (2.4, 0.1, 2.4, 0.1):  # few rounds take long when a store is silent
            reading.stopwatch.move(passed_s)
            await reading.peers.read()
    assert reading.applied == [
        {"w0": PeerLoad(inflight=2, kv_used=0.5)},
        {"w0": PeerLoad(inflight=2)},
        {"w0": PeerLoad(inflight=2)},
        {},
    ]
    assert reading.crowds == [Crowd(2, 100), None, None, None]
    assert [line["event"] for line in logs] == ["state store unavailable"]


async def test_a_store_that_is_back_is_believed_once_all_may_have_written(client: Redis) -> None:
    reading = Reading(client, crowd=Crowd(2))
    await reading.peers.read()
    for passed_s in (60.0, 1.0, 1.0, 1.0):
        reading.stopwatch.move(passed_s)
        await reading.peers.read()
    assert reading.crowds == [Crowd(2, 100), None, None, None, Crowd(2, 100)]

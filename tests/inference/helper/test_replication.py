"""Entries over a real store: from helper to helper, over restarts and outages, each once."""

import time

import numpy as np
import pytest
from redis.asyncio import Redis

from inference.contract.wire import SEMANTIC_FIELD, SEMANTIC_STREAM
from inference.helper.embedder import WIDTH, Vector
from inference.helper.messages import SemanticEntry
from inference.helper.replication import WAITING_MAX, Replication
from inference.store import STORE_TROUBLE
from tests.inference.stores import OwnStore

KEY = bytes(range(32))


class Host:
    """One host's entries, as it was told of them."""

    def __init__(self, client: Redis, *, model: str = "m", data_key: bytes = KEY) -> None:
        self.entries: dict[bytes, tuple[SemanticEntry, Vector]] = {}
        self.taken = 0
        self.replication = Replication(
            client,
            data_key=data_key,
            model=model,
            take=self.take,
            remove=lambda key: self.entries.pop(key, None) and None,
        )

    def take(self, entry: SemanticEntry, vector: Vector) -> None:
        self.taken += 1
        self.entries[entry.key] = entry, vector


def entry(text: str, key: bytes) -> SemanticEntry:
    return SemanticEntry(b"partition", text, key, time.time() + 100)


def vector(at: int) -> Vector:
    made = np.zeros(WIDTH, dtype=np.float32)
    made[at] = 1.0
    return made


async def test_what_one_remembers_the_other_finds_and_nobody_reads_it(
    client: Redis, admin: Redis
) -> None:
    one, other = Host(admin), Host(admin)
    secret = entry("when is my surgery?", b"k")
    one.replication.tell(secret, vector(3))
    await one.replication.say()
    await other.replication.hear()
    await one.replication.hear()
    assert other.entries[b"k"][0] == secret
    assert np.array_equal(other.entries[b"k"][1], vector(3))
    assert one.taken == 0  # its own
    [(_, fields)] = await admin.xrange(SEMANTIC_STREAM)
    assert b"surgery" not in fields[SEMANTIC_FIELD.encode()]
    assert 0 < await admin.pttl(SEMANTIC_STREAM)
    one.replication.tell_gone(b"k")
    await one.replication.say()
    await other.replication.hear()
    assert other.entries == {}


async def test_one_that_starts_has_all_there_is_and_reading_twice_changes_nothing(
    admin: Redis,
) -> None:
    one = Host(admin)
    for number in range(250):
        one.replication.tell(entry(f"question {number}", b"%d" % number), vector(number))
    await one.replication.say()
    fresh = Host(admin)
    await fresh.replication.hear()
    await fresh.replication.hear()
    assert (len(fresh.entries), fresh.taken) == (250, 250)
    fresh.replication.last_id = "0-0"
    await fresh.replication.hear()
    assert len(fresh.entries) == 250


async def test_an_outage_loses_nothing_that_waits_and_an_emptied_store_is_read_anew(
    own_store: OwnStore, admin: Redis
) -> None:
    one, other = Host(admin), Host(admin)
    one.replication.tell(entry("before", b"before"), vector(1))
    await one.replication.say()
    await other.replication.hear()
    own_store.stop()
    one.replication.tell(entry("meanwhile", b"meanwhile"), vector(2))
    with pytest.raises(STORE_TROUBLE):
        await one.replication.say()
    own_store.restart()
    # its clock went back: what it names comes before all that was read
    other.replication.last_id = f"{int(time.time() * 1000) + 3_600_000}-0"
    await one.replication.say()
    await other.replication.hear()
    assert set(other.entries) == {b"before", b"meanwhile"}


async def test_what_waits_is_bounded_and_what_is_strange_is_passed_over(admin: Redis) -> None:
    one = Host(admin)
    for number in range(WAITING_MAX + 3):
        one.replication.tell(entry("text", b"%d" % number), vector(1))
    assert one.replication.dropped == 3
    await one.replication.say()
    await admin.xadd(SEMANTIC_STREAM, {"something": b"else"})
    await admin.xadd(SEMANTIC_STREAM, {SEMANTIC_FIELD: b"not sealed by us"})
    for stranger in (Host(admin, model="another"), Host(admin, data_key=bytes(32))):
        await stranger.replication.hear()
        assert stranger.entries == {}
        assert stranger.replication.strange == WAITING_MAX + 2
    heard = Host(admin)
    await heard.replication.hear()
    assert (len(heard.entries), heard.replication.strange) == (WAITING_MAX, 2)

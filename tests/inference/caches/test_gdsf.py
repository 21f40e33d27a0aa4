"""Memory that is bounded, and what goes first when it is full."""

import random
from dataclasses import replace

from inference.caches.base import Asked, Entry
from inference.caches.gdsf import OVERHEAD_BYTES, Gdsf, worth_of
from inference.caches.memory import MemoryTier
from inference.contract.events import Usage
from inference.contract.kinds import CacheTier, Endpoint
from tests.inference.caches.rig import POLICY, Clock

MADE = Entry(
    b"",
    Endpoint.CHAT,
    0.0,
    10.0,
    10.0,
    "ce_1",
    "cch_a",
    "rt_m",
    Usage(10, 10),
    5.0,
    cost_nanousd=50,
)


def entry(size: int, **changes: object) -> Entry:
    """An entry that takes so many bytes in all."""
    return replace(MADE, body=bytes(size - OVERHEAD_BYTES), **changes)


def test_what_saves_least_for_its_size_goes_first() -> None:
    kept = Gdsf(10_000)
    kept.put(b"dear", entry(4_000, cost_nanousd=10_000))
    kept.put(b"large", entry(4_000, cost_nanousd=1_000))
    kept.put(b"small", entry(2_000, cost_nanousd=1_000))
    kept.put(b"new", entry(4_000, cost_nanousd=1_000))
    assert [key for key in (b"dear", b"large", b"small", b"new") if kept.get(key)] == [
        b"dear",
        b"small",
        b"new",
    ]
    assert (kept.bytes, len(kept), kept.evictions) == (10_000, 3, 1)


def test_what_is_asked_for_often_stays() -> None:
    kept = Gdsf(3 * 2_000)
    for key in (b"a", b"b", b"c"):
        kept.put(key, entry(2_000))
    for _ in range(3):
        kept.get(b"a")
    kept.put(b"d", entry(2_000))
    kept.put(b"e", entry(2_000))
    assert kept.get(b"a") is not None


def test_what_was_popular_once_goes_in_time() -> None:
    kept = Gdsf(4 * 2_000)
    kept.put(b"old", entry(2_000))
    for _ in range(20):
        kept.get(b"old")
    for number in range(200):
        kept.put(b"%d" % number, entry(2_000))
        kept.get(b"%d" % number)
    assert kept.get(b"old") is None


def test_churn_never_passes_its_bytes_nor_loses_count() -> None:
    kept, draw = Gdsf(100_000), random.Random(7)
    for number in range(20_000):
        key = b"%d" % draw.randrange(500)
        if draw.random() < 0.5:
            kept.get(key)
        elif draw.random() < 0.1:
            kept.drop(key)
        else:
            policy = f"cch_{draw.randrange(3)}"
            size = draw.randrange(OVERHEAD_BYTES, 20_000)
            kept.put(key, entry(size, policy_id=policy, cost_nanousd=draw.randrange(9_999)))
        assert 0 <= kept.bytes <= kept.most_bytes
        if number % 1_000 == 0:
            held = [kept._nodes[one] for one in kept._nodes]
            assert kept.bytes == sum(one.size for one in held)
            shelves = kept._shelves.values()
            assert sum(one.entries for one in shelves) == len(held)
            assert all(len(one.heap) <= 2 * one.entries + 64 for one in shelves)


def test_a_policy_fills_its_share_and_no_more() -> None:
    kept = Gdsf(10_000)
    kept.put(b"other", entry(2_000, policy_id="cch_b", cost_nanousd=1))
    for number in range(9):
        kept.put(b"%d" % number, entry(2_000), share_percent=50)
    assert kept.get(b"other") is not None
    assert (len(kept), kept.bytes) == (3, 6_000)
    assert not kept.put(b"huge", entry(6_000), share_percent=50)


def test_a_hit_moves_nothing_in_the_heap() -> None:
    kept = Gdsf(1_000 * 2_000)
    for number in range(1_000):
        kept.put(b"%d" % number, entry(2_000))
    before = list(kept._shelves["cch_a"].heap)
    for number in range(5_000):
        kept.get(b"%d" % (number * 7 % 1_000))
    assert kept._shelves["cch_a"].heap == before


def test_the_entries_that_are_asked_for_most_are_told() -> None:
    kept = Gdsf(1_000_000)
    for number in range(100):
        key = b"%d" % number
        kept.put(key, entry(2_000, entry_id=f"ce_{number}"))
        for _ in range(number):
            kept.get(key)
    top = sorted(kept.top_entries(CacheTier.LOCAL), key=lambda one: -one.hits)
    assert [one.hits for one in top] == list(range(99, 79, -1))
    assert (top[0].entry_id, top[0].saved_nanousd) == ("ce_99", 99 * 50)
    kept.drop(b"99")
    assert len(kept.top_entries(CacheTier.LOCAL)) == 19


def test_tokens_without_a_price_are_worth_something() -> None:
    free, unknown = replace(MADE, cost_nanousd=0), replace(MADE, cost_nanousd=None)
    assert worth_of(free) == worth_of(unknown) == 20_001
    assert worth_of(MADE) == 51


async def test_what_is_past_its_time_is_swept_out() -> None:
    clock = Clock()
    tier = MemoryTier(CacheTier.LOCAL, 100_000, clock=clock)
    asked = Asked("org_a", POLICY, b"k")
    now = clock()
    for number in range(10):
        until = now + number
        tier.keep(asked, b"%d" % number, entry(2_000, expires_at=until, stale_until=until))
    clock.skipped_s = 5
    await tier.sweep()
    assert tier.gauge().entries == 4

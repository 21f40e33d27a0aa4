"""The semantic index: partitions, expiry, removal, its bound, and that it finds what is nearest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.helper import semantic_index
from inference.helper.embedder import WIDTH, Vector
from inference.helper.semantic_index import SemanticIndex
from tests.inference.clocks import HandClock

FAR = 10.0**9
MIB = 1024 * 1024


def vectors(count: int, seed: int = 7) -> list[Vector]:
    made = np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)
    return list(made / np.linalg.norm(made, axis=1, keepdims=True))


def keys_of(index: SemanticIndex, partition: bytes, vector: Vector, count: int = 3) -> list[bytes]:
    return [one.entry.key for one in index.nearest(partition, vector, count)]


def test_the_nearest_come_first_with_their_cosines() -> None:
    index, (one, other, third) = SemanticIndex(MIB), vectors(3)
    index.put(b"p", b"one", "one", one, FAR * 10)
    index.put(b"p", b"other", "other", other, FAR * 10)
    mixed = (0.9 * other + 0.3 * one) / np.linalg.norm(0.9 * other + 0.3 * one)
    found = index.nearest(b"p", mixed.astype(np.float32), 3)
    assert [near.entry.key for near in found] == [b"other", b"one"]
    assert found[0].similarity == pytest.approx(float(mixed @ other), abs=1e-5)
    assert index.nearest(b"none", third, 3) == []


def test_a_hundred_nearer_entries_of_another_tenant_hide_nothing() -> None:
    # cases: entries scoped by API, not by user (C69)
    index, (asked, own) = SemanticIndex(MIB), vectors(2)
    for number in range(100):
        index.put(b"tenant A", b"%d" % number, "What is my balance?", asked, FAR * 10)
    index.put(b"tenant B", b"own", "Show my balance", own, FAR * 10)
    assert keys_of(index, b"tenant B", asked) == [b"own"]
    assert index.partitions == 2


def test_what_has_expired_is_not_found_nor_does_it_hide_another() -> None:
    clock = HandClock()
    index, (asked, further) = SemanticIndex(MIB, clock=clock), vectors(2)
    index.put(b"p", b"old", "old", asked, clock.now + 1)
    index.put(b"p", b"fresh", "fresh", further, clock.now + 100)
    assert keys_of(index, b"p", asked, 1) == [b"old"]
    clock.move(1.2)
    assert keys_of(index, b"p", asked, 1) == [b"fresh"]
    assert len(index) == 1
    index.put(b"p", b"late", "late", asked, clock.now)
    assert len(index) == 1


def test_what_is_put_again_is_there_once_with_its_new_end() -> None:
    clock = HandClock()
    index, (one, other) = SemanticIndex(MIB, clock=clock), vectors(2)
    index.put(b"p", b"key", "first", one, clock.now + 1)
    before = index.bytes
    index.put(b"p", b"key", "again", other, clock.now + 100)
    assert (len(index), index.bytes) == (1, before)
    clock.move(50)
    assert [near.entry.text for near in index.nearest(b"p", other, 3)] == ["again"]
    index.put(b"q", b"key", "elsewhere", other, clock.now + 100)
    assert index.nearest(b"p", other, 3) == []
    assert index.partitions == 1


def test_the_longest_unused_go_when_there_is_no_room() -> None:
    index = SemanticIndex(10 * 3000)
    made = vectors(30)
    for number, vector in enumerate(made):
        index.put(b"p", b"%d" % number, "x", vector, FAR * 10)
        index.use(next(near.entry for near in index.nearest(b"p", made[0], 1)))
    assert index.bytes <= index.bytes_max
    assert index.evictions_total == 30 - len(index) > 0
    left = {entry.key for entry in index}
    assert b"0" in left
    assert left == {b"0"} | {b"%d" % number for number in range(31 - len(index), 30)}
    index.put(b"p", b"huge", "x" * 40_000, made[1], FAR * 10)
    assert b"huge" not in {entry.key for entry in index}


def test_bytes_are_what_partitions_have_taken_and_what_is_removed_is_given_back() -> None:
    index, made = SemanticIndex(4 * MIB), vectors(200)
    for number, vector in enumerate(made):
        index.put(b"small %d" % number, b"s%d" % number, "x", vector, FAR * 10)
    # one row each: less than two and a half vectors with all that belongs to them
    assert index.bytes < 200 * 2.5 * 4 * WIDTH
    small = index.bytes
    for number, vector in enumerate(made):
        index.put(b"large", b"l%d" % number, "x", vector, FAR * 10)
    assert 200 * 4 * WIDTH < index.bytes - small < 200 * 2.5 * 4 * WIDTH
    for number in range(1, 200):
        index.remove(b"l%d" % number)
    assert index.bytes - small < 5 * 4 * WIDTH
    assert keys_of(index, b"large", made[0]) == [b"l0"]
    for entry in list(index):
        index.remove(entry.key)
    assert (index.bytes, index.partitions) == (0, 0)


@pytest.mark.parametrize("flat", [4, 10_000])
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=80))
def test_it_has_what_a_plain_list_would_have(flat: int, steps: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semantic_index, "FLAT_MAX", flat)
        clock = HandClock()
        index, made = SemanticIndex(MIB, clock=clock), vectors(31)
        plain: dict[bytes, tuple[bytes, float]] = {}
        for what, number in steps:
            key, partition = b"%d" % number, b"ab"[number % 2 : number % 2 + 1]
            if what == 0:
                index.remove(key)
                plain.pop(key, None)
            elif what == 1:
                clock.move(number)
            else:
                index.put(partition, key, "x", made[number], clock.now + 10 * what)
                plain[key] = partition, clock.now + 10 * what
            plain = {one: kept for one, kept in plain.items() if kept[1] > clock.now}
            index.expire()
            assert {entry.key: (entry.partition, entry.expires_at) for entry in index} == plain
            for name in (b"a", b"b"):
                own = {one for one, kept in plain.items() if kept[0] == name}
                assert set(keys_of(index, name, made[number], 31)) == own
                if own:
                    best = max(own, key=lambda one: float(made[int(one)] @ made[number]))
                    assert keys_of(index, name, made[number], 1) == [best]


@pytest.mark.slow
def test_thousands_are_found_in_the_graph_too_after_many_have_come_and_gone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semantic_index, "FLAT_MAX", 64)
        index, made = SemanticIndex(64 * MIB), vectors(3000)
        for number, vector in enumerate(made):
            index.put(b"p", b"%d" % number, "x", vector, FAR * 10)
            if number >= 1500:
                index.remove(b"%d" % (number - 1500))
        found = [keys_of(index, b"p", vector, 1) == [b"%d" % (1500 + at)]
                 for at, vector in enumerate(made[1500:])]  # fmt: skip
        assert len(index) == 1500
        assert sum(found) >= 0.99 * len(found)

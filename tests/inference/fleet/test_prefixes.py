"""Beginnings of prompts: cut alike, remembered by worker, bounded by count and age."""

from dataclasses import dataclass

from inference.fleet.prefixes import (
    MAX_AGE_S,
    MAX_BLOCKS,
    STEP_BYTES,
    PrefixIndex,
    blocks_of,
    salt_of,
)

PROMPT = bytes(range(256)) * 80  # ten steps
A, B = salt_of("a"), salt_of("b")


def test_equal_beginnings_have_equal_blocks_up_to_where_they_differ() -> None:
    blocks = blocks_of(PROMPT)
    assert len(blocks) == len(set(blocks)) == 10
    assert blocks_of(PROMPT + b"more") == blocks
    changed = bytearray(PROMPT)
    changed[5 * STEP_BYTES] ^= 1
    assert blocks_of(bytes(changed))[:5] == blocks[:5]
    assert not set(blocks_of(bytes(changed))[5:]) & set(blocks)


def test_a_prompt_shorter_than_a_step_has_no_blocks() -> None:
    assert blocks_of(PROMPT[: STEP_BYTES - 1]) == ()
    assert len(blocks_of(PROMPT[:STEP_BYTES])) == 1


def test_a_huge_prompt_has_so_many_blocks_and_no_more() -> None:
    assert len(blocks_of(bytes(10 * MAX_BLOCKS * STEP_BYTES))) == MAX_BLOCKS


def test_a_worker_has_what_it_was_sent_from_the_beginning_on() -> None:
    index, blocks = PrefixIndex(), blocks_of(PROMPT)
    assert index.hit(A, blocks, now_s=0.0) == 0.0
    index.remember(A, blocks[:8], now_s=0.0)
    assert index.hit(A, blocks, now_s=1.0) == 0.8
    assert index.hit(A, blocks[:8], now_s=1.0) == 1.0
    assert index.hit(B, blocks, now_s=1.0) == 0.0
    index.remember(B, blocks[1:], now_s=0.0)
    assert index.hit(B, blocks, now_s=1.0) == 0.0
    assert index.hit(A, (), now_s=1.0) == 0.0


@dataclass
class Sent:
    id: str
    salt: int


def test_of_many_workers_those_that_have_had_some_of_it_are_named() -> None:
    index, blocks = PrefixIndex(), blocks_of(PROMPT)
    workers = [Sent(name, salt_of(name)) for name in "abc"]
    index.remember(A, blocks[:3], now_s=0.0)
    index.remember(B, blocks[1:], now_s=0.0)
    assert index.hits(workers, blocks, now_s=1.0) == {"a": 0.3}
    assert index.hits(workers, blocks, now_s=MAX_AGE_S + 1) == {}


def test_what_nobody_sent_for_long_is_forgotten() -> None:
    index, blocks = PrefixIndex(), blocks_of(PROMPT)
    index.remember(A, blocks, now_s=0.0)
    index.remember(A, blocks[:5], now_s=100.0)
    assert index.hit(A, blocks, now_s=MAX_AGE_S + 1) == 0.5
    index.remember(B, blocks[:1], now_s=MAX_AGE_S + 1)
    assert len(index) == 6


def test_what_was_sent_longest_ago_makes_room() -> None:
    index, blocks = PrefixIndex(max_entries=8), blocks_of(PROMPT)
    index.remember(A, blocks[:4], now_s=0.0)
    index.remember(B, blocks[:4], now_s=1.0)
    index.remember(A, blocks[:2], now_s=2.0)
    index.remember(B, blocks[4:6], now_s=3.0)
    assert len(index) == 8
    assert index.hit(A, blocks[:4], now_s=3.0) == 0.5
    assert index.hit(B, blocks[:4], now_s=3.0) == 1.0


def test_a_prompt_larger_than_the_whole_index_leaves_it_within_its_bound() -> None:
    index = PrefixIndex(max_entries=4)
    index.remember(A, blocks_of(PROMPT), now_s=0.0)
    assert len(index) == 4


def test_who_has_read_a_prompt_to_its_end_has_had_all_of_it() -> None:
    index, blocks = PrefixIndex(max_entries=10), blocks_of(PROMPT)
    index.remember(A, blocks, now_s=0.0)
    assert index.hits([Sent("a", A)], blocks, now_s=1.0) == {"a": 1.0}
    assert index.hits([Sent("a", A)], blocks, now_s=MAX_AGE_S + 1) == {}
    index.remember(A, (*blocks[:2], blocks[2] ^ 1), now_s=2.0)  # which pushes the third out
    assert index.hit(A, blocks, now_s=3.0) == 0.2
    assert index.hits([Sent("a", A)], blocks, now_s=3.0) == {"a": 1.0}

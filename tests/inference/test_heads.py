"""Heads that are known again: only whole ones of the same bytes, whatever their bodies' length."""

import pytest

from inference.heads import MAX_KNOWN_BYTES, HeadMemory

HEAD = b"POST /v1 HTTP/1.1\r\nhost: a\r\nContent-Length: %d\r\nx-a: 1\r\n\r\n"


def learned(data: bytes) -> HeadMemory[str]:
    memory: HeadMemory[str] = HeadMemory()
    memory.learn(data, "read")
    return memory


@pytest.mark.parametrize("length", [0, 4, 17, 123_456_789])
def test_a_head_is_known_again_with_a_body_of_another_length(length: int) -> None:
    head = HEAD % length
    assert learned(HEAD % 4 + b"body").find(head + b"rest") == ("read", length, len(head))


@pytest.mark.parametrize(
    "other",
    [
        b"",
        HEAD[:30],
        (HEAD % 4)[:-1],
        (HEAD % 4)[:45],
        (HEAD % 4).replace(b"x-a: 1", b"x-a: 2"),
        (HEAD % 4).replace(b"host: a", b"host: b"),
        (HEAD % 4).replace(b"Content", b"content"),
        (HEAD % 4).replace(b": 4\r\n", b": \r\n"),
        (HEAD % 4).replace(b": 4\r\n", b": -4\r\n"),
        (HEAD % 4).replace(b": 4\r\n", b": 4 \r\n"),
        (HEAD % 4).replace(b": 4\r\n", b": 4\n"),
        (HEAD % 4).replace(b": 4\r\n", b": 4,4\r\n"),
        HEAD % 1_234_567_890,
        (HEAD % 4).replace(b"\r\n\r\n", b"\r\nx-b: 1\r\n\r\n"),
    ],
)
def test_any_other_head_is_not_known(other: bytes) -> None:
    assert learned(HEAD % 4 + b"body").find(other) is None


@pytest.mark.parametrize(
    "data",
    [
        b"POST /v1 HTTP/1.1\r\nhost: a\r\n\r\n",
        HEAD[:40],
        (HEAD % 4).replace(b"x-a: 1", b"content-length: 4"),
        (HEAD % 4).replace(b"x-a: 1", b"Transfer-Encoding: chunked"),
        (HEAD % 4).replace(b"x-a: 1", b"x-a: " + b"1" * MAX_KNOWN_BYTES),
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD % 4,
    ],
)
def test_a_head_without_one_plain_length_is_not_learned(data: bytes) -> None:
    memory = learned(data)
    assert memory.find(data) is None


def test_what_was_learned_before_is_forgotten_with_a_head_that_cannot_be() -> None:
    memory = learned(HEAD % 4)
    memory.learn(b"POST /v1 HTTP/1.1\r\n\r\n", "other")
    assert memory.find(HEAD % 4) is None


def test_whoever_says_something_new_each_time_is_learned_from_ever_more_seldom() -> None:
    memory: HeadMemory[int] = HeadMemory()
    known = []
    for number in range(200):
        head = HEAD.replace(b"x-a: 1", b"x-a: %d" % number) % 4
        memory.learn(head, number)
        known.append(memory.find(head[:-1] + b"!") is None and memory._read == number)
    assert known[:8] == [True] * 8
    assert sum(known) < 15


def test_one_that_is_known_again_is_learned_from_at_once_when_it_changes() -> None:
    memory: HeadMemory[int] = HeadMemory()
    for number in range(100):
        head = HEAD.replace(b"x-a: 1", b"x-a: %d" % number) % 4
        memory.learn(head, number)
        assert memory.find(head) == (number, 4, len(head))

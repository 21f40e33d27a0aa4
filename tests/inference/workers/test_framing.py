"""Chunks that are known by their length: a body is the same wherever its bytes were cut."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import UpstreamBadAnswer
from inference.watchdog import Watchdog
from inference.workers.answers import Answer
from inference.workers.framing import size_line
from inference.workers.pace import Timeouts

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n-\r\n"
CHUNKS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6)
ENDS = st.sampled_from((b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n", b"z\r\n"))


class Transport:
    """One that only notes that it was cut off."""

    def __init__(self) -> None:
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True

    def is_closing(self) -> bool:
        return self.is_cut


async def relayed(reads: list[bytes]) -> tuple[bytes, bool]:
    """What is relayed of these reads, and whether the answer was one to its end."""
    loop = asyncio.get_running_loop()
    answer = Answer(
        cast("asyncio.Transport", Transport()),
        loop=loop,
        timeouts=Timeouts(60.0, 60.0, 60.0),
        watchdog=Watchdog(loop),
        on_settled=lambda _answer: None,
    )
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return data != b""

    relaying = loop.create_task(answer.relay(take, lambda: 60.0))
    await asyncio.sleep(0)
    for data in reads:
        if not answer.is_complete:
            answer.feed(data)
    try:
        return b"".join(taken), await relaying
    except UpstreamBadAnswer:
        return b"".join(taken), False
    finally:
        answer.close()


@given(chunks=CHUNKS, end=ENDS, upper=st.booleans(), cuts=st.lists(st.integers(1, 400), max_size=8))
def test_a_body_is_the_same_wherever_it_was_cut(
    chunks: list[bytes], end: bytes, upper: bool, cuts: list[int]
) -> None:
    size = "%X" if upper else "%x"
    parts = [(size % len(one)).encode() + b"\r\n" + one + b"\r\n" for one in chunks]
    whole = HEAD + b"".join(parts) + end
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    cut = [whole[start:stop] for start, stop in pairwise(places)]
    expected = b"-" + b"".join(chunks), end != b"z\r\n"
    assert asyncio.run(relayed([HEAD, *parts, end])) == expected
    assert asyncio.run(relayed(cut)) == expected


@pytest.mark.parametrize("size", [1, 15, 16, 255, 256, 4_095, 4_096, 65_536])
def test_a_chunk_is_known_by_its_length(size: int) -> None:
    line = b"%x\r\n" % size
    assert size_line(len(line) + size + 2) == line


@pytest.mark.parametrize("length", [0, 1, 4, 5, 21])
def test_no_chunk_is_so_long(length: int) -> None:
    assert not b"0\r\n\r\n".startswith(size_line(length))

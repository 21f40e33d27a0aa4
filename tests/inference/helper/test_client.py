"""A gateway's line to the helper, over real sockets: late, dead, frozen, garbled, back again."""

import asyncio
import os
import signal
import socket as sockets
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from inference.helper.client import ASKED_MAX, LATE_IN_ROW, WAITING_MAX, HelperClient
from inference.helper.messages import (
    TEXT_CHARS_MAX,
    TOO_LONG,
    AskNearest,
    Forget,
    Frames,
    GarbledFrame,
    HelperGauge,
    Nearest,
    Ping,
    Remember,
    SemanticQuery,
    frame_of,
    read_asked,
    read_told,
)
from inference.helper.server import HelperServer, SocketTaken
from tests.architecture.sources import ROOT
from tests.inference.helper.lines import (
    Notebook,
    calling,
    dawdling,
    entry,
    query,
    serving,
)
from tests.inference.stores import until

SERVE = """
import sys, uvloop
from pathlib import Path
from inference.helper.server import HelperServer
from tests.inference.helper.lines import Notebook
uvloop.run(HelperServer(Path(sys.argv[1]), Notebook()).run())
"""


@contextmanager
def process(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A helper in a process of its own."""
    running = subprocess.Popen((sys.executable, "-c", SERVE, str(socket)), cwd=ROOT)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@contextmanager
def listening(socket: Path) -> Iterator[sockets.socket]:
    """Something at the socket that is no helper."""
    with sockets.socket(sockets.AF_UNIX) as listener:
        listener.bind(str(socket))
        listener.listen(100)
        listener.setblocking(False)
        yield listener


async def test_what_was_told_is_found_by_who_asks_in_its_partition(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with serving(socket, Notebook()), calling(socket) as client:
        await until(lambda: client.is_up, "a helper")
        client.remember(entry("how do I pay?", key=b"a"))
        assert await client.nearest(query("how do I pay?")) is None  # questions come first
        await until(is_found(client, "how do I pay?"), "what was told to be found")
        assert await client.nearest(query("how do I pay?", partition=b"two")) is None
        client.forget(b"a")
        is_gone = is_found(client, "how do I pay?", wanted=False)
        await until(is_gone, "what was forgotten to be gone")
        assert await client.agree("yes", "yes") is True
        assert await client.agree("yes", "no") is False
        assert client.gauge == HelperGauge()
        assert client.counts.late == client.counts.down == client.counts.dropped == 0


def test_gateways_and_helper_run_on_uvloop_and_understand_each_other(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"

    async def scenario() -> None:
        async with serving(socket, Notebook()), calling(socket) as client:
            await until(lambda: client.is_up, "a helper")
            client.remember(entry("how do I pay?"))
            await until(is_found(client, "how do I pay?"), "what was told to be found")
            assert client.counts.garbled == 0

    uvloop.run(scenario())


def is_found(
    client: HelperClient, text: str, *, wanted: bool = True
) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return (await client.nearest(query(text)) is not None) is wanted

    return ask


async def test_without_a_helper_nothing_is_found_at_once_and_it_is_counted(tmp_path: Path) -> None:
    async with calling(tmp_path / "nobody.sock") as client:
        await asyncio.sleep(0)
        assert await client.nearest(query("anything")) is None
        assert await client.agree("a", "b") is None
        assert client.counts.down == 2
        for number in range(WAITING_MAX + 5):
            client.remember(entry("text", key=b"%d" % number))
        assert client.counts.dropped == 5


async def test_what_was_told_while_nobody_listened_is_told_as_soon_as_somebody_does(
    tmp_path: Path,
) -> None:
    socket, notebook = tmp_path / "helper.sock", Notebook()
    async with calling(socket) as client:
        client.remember(entry("before it was there"))
        async with serving(socket, notebook):
            await until(lambda: bool(notebook.entries), "what was told")


async def test_a_late_helper_costs_its_deadline_a_few_times_and_then_nothing(
    tmp_path: Path,
) -> None:
    socket = tmp_path / "helper.sock"
    async with dawdling(socket) as helper, calling(socket, deadline_s=0.2) as client:
        await until(lambda: client.is_up, "a helper")
        helper.is_late = True
        began = time.monotonic()
        for _ in range(LATE_IN_ROW + 100):
            assert await client.nearest(query("slow")) is None
        assert time.monotonic() - began < 10
        assert (client.counts.late, client.counts.down) == (LATE_IN_ROW, 100)
        assert helper.asked == LATE_IN_ROW
        helper.is_late = False
        await until(lambda: client.is_up, "a helper")
        await client.nearest(query("in time"))
        assert client.counts.answered == 1


async def test_an_answer_in_time_makes_up_for_late_ones(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with dawdling(socket) as helper, calling(socket, deadline_s=0.1) as client:
        await until(lambda: client.is_up, "a helper")
        for is_late in (True, True, False, True, True):
            helper.is_late = is_late
            await client.nearest(query("q"))
        assert client.is_up
        assert client.counts.late == 4


async def test_what_nobody_waits_for_any_more_is_not_thought_about(tmp_path: Path) -> None:
    socket, notebook = tmp_path / "helper.sock", Notebook(takes_s=0.1)
    async with serving(socket, notebook) as server, calling(socket, deadline_s=0.5) as client:
        await until(lambda: client.is_up, "a helper")
        many = [client.nearest(query(str(number))) for number in range(20)]
        await asyncio.gather(*many)
        await until(lambda: server.counts.late + len(notebook.asked) == 20, "each to be seen to")
        assert server.counts.late > 5


async def test_more_questions_than_can_be_in_time_are_not_asked(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with serving(socket, Notebook(takes_s=0.001)), calling(socket) as client:
        await until(lambda: client.is_up, "a helper")
        await asyncio.gather(*(client.nearest(query("q")) for _ in range(ASKED_MAX + 7)))
        assert (client.counts.answered, client.counts.busy) == (ASKED_MAX, 7)


async def test_texts_beyond_what_the_embedder_reads_are_not_asked(tmp_path: Path) -> None:
    async with calling(tmp_path / "nobody.sock") as client:
        long = await client.nearest(query("x" * (TEXT_CHARS_MAX + 1)))
        assert long == Nearest(None, 0.0, TOO_LONG)
        assert (client.counts.too_long, client.counts.down) == (1, 0)


@pytest.mark.slow
async def test_a_killed_helper_keeps_nobody_and_its_successor_is_found(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with calling(socket) as client:
        with process(socket) as first:
            await until(lambda: client.is_up, "a helper")
            os.kill(first.pid, signal.SIGSTOP)
            waiting = [asyncio.create_task(client.nearest(query("q"))) for _ in range(5)]
            await asyncio.sleep(0.05)
            first.kill()
            assert await asyncio.gather(*waiting) == [None] * 5
            assert client.counts.down == 5
        with process(socket):
            await until(lambda: client.is_up, "a helper")
            await client.nearest(query("q"))
            assert client.counts.answered == 1


@pytest.mark.slow
async def test_a_frozen_helper_costs_a_few_deadlines_and_is_back_once_it_thaws(
    tmp_path: Path,
) -> None:
    socket = tmp_path / "helper.sock"
    with process(socket) as helper:
        async with calling(socket, deadline_s=0.2) as client:
            await until(lambda: client.is_up, "a helper")
            os.kill(helper.pid, signal.SIGSTOP)
            began = time.monotonic()
            for _ in range(1000):
                assert await client.nearest(query("q")) is None
            assert time.monotonic() - began < 10
            assert client.counts.late == LATE_IN_ROW
            assert client.counts.down == 1000 - LATE_IN_ROW
            for number in range(10_000):
                client.remember(entry("x" * 1000, key=b"%d" % number))
            assert client.counts.dropped == 10_000 - WAITING_MAX
            os.kill(helper.pid, signal.SIGCONT)
            await until(lambda: client.is_up, "a helper")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\xc1\xc1",
        frame_of(Remember(entry("a question"))),
        b"\x00\x00\x00\x05\x94\xa1n\x01\x02",
    ],
    # what is remembered has a time, and a test has one name in all processes
    ids=["http", "empty", "endless", "unknown", "not asked for", "cut short"],
)
async def test_nonsense_is_counted_and_does_no_harm(tmp_path: Path, said: bytes) -> None:
    socket = tmp_path / "helper.sock"
    loop = asyncio.get_running_loop()
    with listening(socket) as listener:
        async with calling(socket) as client:
            peer, _ = await loop.sock_accept(listener)
            with peer:
                await loop.sock_sendall(peer, said)
                await until(lambda: client.counts.garbled == 1, "it to be seen")
            assert await client.nearest(query("q")) is None


async def test_who_hangs_up_at_once_is_not_stormed(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    loop = asyncio.get_running_loop()
    accepted = 0
    with listening(socket) as listener:
        async with calling(socket):
            began = time.monotonic()
            while accepted < 4:
                peer, _ = await loop.sock_accept(listener)
                peer.close()
                accepted += 1
            # pauses of at least 0.05, 0.1 and 0.2 s lie between four connections
            assert time.monotonic() - began >= 0.35


async def test_a_caller_who_talks_nonsense_is_cut_off_alone(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with serving(socket, Notebook()) as server, calling(socket) as client:
        await until(lambda: client.is_up, "a helper")
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        assert server.counts.garbled == 0  # no frame at all
        assert await client.nearest(query("q")) is None
        assert client.counts.answered == 1


async def test_a_question_that_fails_fails_alone(tmp_path: Path) -> None:
    class Forgetful(Notebook):
        def nearest(self, query: SemanticQuery) -> Nearest | None:
            if query.text == "poison":
                raise LookupError(query.text)
            return super().nearest(query)

        def agree(self, one: str, other: str) -> bool | None:
            if one == "poison":
                raise LookupError(one)
            return super().agree(one, other)

    socket = tmp_path / "helper.sock"
    async with (
        serving(socket, Forgetful()) as server,
        calling(socket, deadline_s=0.3) as client,
    ):
        await until(lambda: client.is_up, "a helper")
        assert await client.nearest(query("poison")) is None
        comparing = asyncio.create_task(client.agree("poison", "cure"))
        await until(lambda: server.counts.failed == 2, "both to fail")
        assert await client.nearest(query("q")) is None
        assert await client.agree("a", "a") is True
        assert (client.counts.late, client.counts.answered) == (1, 2)
        assert await comparing is None


async def test_a_second_helper_does_not_take_the_socket(tmp_path: Path) -> None:
    socket = tmp_path / "helper.sock"
    async with serving(socket, Notebook()):
        assert socket.stat().st_mode & 0o077 == 0
        with pytest.raises(SocketTaken):
            await HelperServer(socket, Notebook()).run()
        assert socket.exists()
    assert not socket.exists()


@given(st.lists(st.sampled_from([Ping(7), Forget(b"k"), Remember(entry("t"))])), st.data())
def test_frames_are_read_in_pieces_of_any_size(messages: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    stream = b"".join(frame_of(one) for one in messages)
    frames, read = Frames(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        read += [read_asked(payload) for payload in frames.feed(stream[:size])]
        stream = stream[size:]
    assert read == messages


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_garbled(noise: bytes) -> None:
    try:
        for payload in Frames().feed(noise):
            for read in (read_asked, read_told):
                try:
                    read(payload)
                except GarbledFrame:
                    continue
    except GarbledFrame:
        pass


def test_texts_that_are_no_utf8_and_numbers_that_are_none_are_garbled() -> None:
    sound = frame_of(AskNearest(1, 0.5, query("text")))[4:]
    assert read_asked(sound) == AskNearest(1, 0.5, query("text"))
    with pytest.raises(GarbledFrame):
        read_asked(sound.replace(b"text", b"\xff\xfe\xfd\xfc"))

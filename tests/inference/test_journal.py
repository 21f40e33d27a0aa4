"""The journal: what is returned is on disk, in order, numbered without a gap, whatever the disk."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from inference.events.reader import read_remains
from inference.journal import (
    Journal,
    JournalTaken,
    JournalUnavailable,
    lock_journal,
    segment_name,
    segments_of,
)
from tests.inference.facts import end, ends_of, ids_of, opening


@pytest.fixture
async def journal(tmp_path: Path) -> Any:
    journal = Journal.create(tmp_path / "journals")
    yield journal
    journal.release()


async def test_what_is_returned_is_on_disk(journal: Journal) -> None:
    await journal.open(opening(1))
    assert ids_of(journal.folder) == ["S 0", "O req_1"]
    assert await journal.close(end(1)) == 1
    written = replace(end(1), journal=journal.journal_id, seq=1)
    assert ids_of(journal.folder) == ["S 0", "O req_1", "E req_1 1"]
    assert ends_of(journal.folder) == [written]


async def test_ends_are_numbered_without_a_gap_and_openings_are_not(journal: Journal) -> None:
    await journal.open(opening(1))
    assert await journal.close(end(7)) == 1
    await journal.open(opening(2))
    assert await journal.close(end(2)) == 2
    assert await journal.close(end(1)) == 3
    assert (journal.seq, journal.backlog) == (3, 3)


async def test_one_turn_is_one_write(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    await journal.open(opening(0))
    writes: list[int] = []
    real = os.write

    def counting(file: int, data: Any) -> int:
        writes.append(len(data))
        return real(file, data)

    monkeypatch.setattr(os, "write", counting)
    openings = [journal.open(opening(n)) for n in range(50)]
    ends = [journal.close(end(n)) for n in range(50)]
    await asyncio.gather(*openings, *ends)
    assert len(writes) == 1
    assert [one.seq for one in ends_of(journal.folder)] == list(range(1, 51))


async def test_a_cancelled_callers_end_is_written_all_the_same(journal: Journal) -> None:
    closing = journal.close(end(1))
    await asyncio.sleep(0)
    closing.cancel()
    with suppress(asyncio.CancelledError):
        await closing
    await journal.open(opening(2))
    assert ids_of(journal.folder) == ["S 0", "E req_1 1", "O req_2"]


async def test_segments_are_rotated_and_take_open_requests_along(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, segment_bytes=1_000)
    await journal.open(opening(1))
    await journal.close(end(2))
    await journal.close(end(3))
    await journal.close(end(1))
    await journal.close(end(4))
    assert [path.name for path in segments_of(journal.folder)] == [
        segment_name(n) for n in (1, 2, 3, 4)
    ]
    assert ids_of(journal.folder) == [
        *("S 0", "O req_1", "E req_2 1"),
        *("S 1", "O req_1", "E req_3 2"),
        *("S 2", "O req_1", "E req_1 3"),
        *("S 3", "E req_4 4"),
    ]
    journal.release()


async def test_many_open_requests_do_not_make_every_write_a_segment(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, segment_bytes=5_000)
    await asyncio.gather(*(journal.open(opening(n)) for n in range(50)))
    for n in range(100, 103):
        await journal.close(end(n))
    assert len(segments_of(journal.folder)) == 2
    journal.release()


async def test_files_are_the_owners_alone(journal: Journal) -> None:
    await journal.open(opening(1))
    modes = {path.stat().st_mode & 0o777 for path in journal.folder.iterdir()}
    assert modes == {0o600}
    assert journal.folder.stat().st_mode & 0o777 == 0o700


async def test_what_cannot_be_encoded_fails_alone_and_takes_no_number(journal: Journal) -> None:
    bad = end(1, decision={"socket": object()})
    results = await asyncio.gather(
        journal.close(bad), journal.close(end(2)), return_exceptions=True
    )
    assert isinstance(results[0], JournalUnavailable)
    assert results[1] == 1
    assert journal.events_lost_total == 1


class Disk:
    """Stands between the journal and the real disk, and fails as it is told."""

    def __init__(self) -> None:
        self.error: int | None = None
        self.room: int | None = None
        self.can_truncate = True

    def write(self, file: int, data: Any) -> int:
        if self.room == 0 or self.error is not None:
            raise OSError(self.error or errno.ENOSPC, "told so")
        if self.room is None:
            return REAL_WRITE(file, data)
        written = REAL_WRITE(file, data[: self.room])
        self.room -= written
        return written

    def truncate(self, file: int, size: int) -> None:
        if not self.can_truncate:
            raise OSError(errno.EIO, "told so")
        REAL_TRUNCATE(file, size)


REAL_WRITE: Callable[[int, Any], int] = os.write
REAL_TRUNCATE = os.ftruncate


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(os, "write", disk.write)
    monkeypatch.setattr(os, "ftruncate", disk.truncate)
    yield disk
    monkeypatch.undo()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_a_failing_disk_is_said_and_recovered_from(
    journal: Journal, disk: Disk, error: int
) -> None:
    await journal.close(end(1))
    disk.error = error
    with capture_logs() as logs:
        for number in (2, 3):
            with pytest.raises(JournalUnavailable):
                await journal.close(end(number))
        with pytest.raises(JournalUnavailable):
            await journal.open(opening(4))
        disk.error = None
        assert await journal.close(end(5)) == 2
    assert journal.events_lost_total == 2
    assert journal.events_lost_at == pytest.approx(time.time(), abs=60)
    assert ids_of(journal.folder) == ["S 0", "E req_1 1", "E req_5 2"]
    assert [entry["event"] for entry in logs] == [
        "journal cannot be written",
        "journal writable again",
    ]


async def test_a_disk_that_fills_up_in_the_middle_keeps_whole_lines_and_drops_the_torn(
    journal: Journal, disk: Disk
) -> None:
    await journal.close(end(1))
    line = len(segments_of(journal.folder)[0].read_bytes()) - len(b"S 0\n")
    disk.room = 2 * line + line // 2
    results = await asyncio.gather(
        *(journal.close(end(n)) for n in (2, 3, 4, 5)), return_exceptions=True
    )
    assert [type(result) for result in results[2:]] == [JournalUnavailable] * 2
    assert results[:2] == [2, 3]
    disk.room = None
    assert await journal.close(end(6)) == 4
    assert segments_of(journal.folder)[0].read_bytes().endswith(b"\n")
    assert ids_of(journal.folder) == [
        *("S 0", "E req_1 1", "E req_2 2", "E req_3 3", "E req_6 4"),
    ]
    assert ends_of(journal.folder)[0].event_id == "req_1"


async def test_a_torn_line_that_cannot_be_cut_off_stays_at_the_end_of_its_segment(
    journal: Journal, disk: Disk
) -> None:
    await journal.close(end(1))
    disk.room = 100
    disk.can_truncate = False
    with pytest.raises(JournalUnavailable):
        await journal.close(end(2))
    disk.room = None
    assert await journal.close(end(3)) == 2
    assert len(segments_of(journal.folder)) == 2
    assert not segments_of(journal.folder)[0].read_bytes().endswith(b"\n")
    assert ids_of(journal.folder) == ["S 0", "E req_1 1", "S 1", "E req_3 2"]
    assert [one.event_id for one in ends_of(journal.folder)] == ["req_1", "req_3"]


async def test_a_segment_that_cannot_be_begun_is_tried_again(tmp_path: Path, disk: Disk) -> None:
    journal = Journal.create(tmp_path, segment_bytes=100)
    await journal.close(end(1))
    disk.room = 2
    with pytest.raises(JournalUnavailable):
        await journal.close(end(2))
    disk.room = None
    assert await journal.close(end(3)) == 2
    assert ids_of(journal.folder) == ["S 0", "E req_1 1", "S 1", "E req_3 2"]
    journal.release()


async def fill(journal: Journal) -> int:
    """Write ends until the disk is full; how many it took."""
    written = 0
    with suppress(JournalUnavailable):
        while True:
            await journal.close(end(written))
            written += 1
    return written


async def test_a_real_full_disk_refuses_and_takes_again_when_there_is_room(
    small_disk: Path,
) -> None:
    journal = Journal.create(small_disk / "journals")
    ballast = small_disk / "ballast"
    written = await fill(journal)
    assert written > 100
    assert [one.seq for one in ends_of(journal.folder)] == list(range(1, written + 1))
    with pytest.raises(JournalUnavailable):
        await journal.close(end(-1))
    ballast.unlink()
    assert await journal.close(end(-2)) == written + 1
    assert ends_of(journal.folder)[-1].event_id == "req_-2"
    journal.release()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, half of it taken by `ballast`."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")
    (folder / "ballast").write_bytes(bytes(512 * 1024))
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


async def test_a_journal_may_begin_on_a_disk_that_won_t_have_it_yet(tmp_path: Path) -> None:
    root = tmp_path / "journals"
    root.write_text("in the way")
    journal = Journal.create(root)
    with pytest.raises(JournalUnavailable):
        await journal.close(end(1))
    root.unlink()
    assert await journal.close(end(2)) == 1
    assert os.listdir(root) == [journal.journal_id]
    with pytest.raises(JournalTaken):
        lock_journal(journal.folder)
    journal.release()


async def test_a_live_journal_cannot_be_adopted_not_even_by_its_own_process(
    journal: Journal,
) -> None:
    with pytest.raises(JournalTaken):
        lock_journal(journal.folder)
    await journal.close(end(1))
    with pytest.raises(JournalTaken):
        lock_journal(journal.folder)


async def test_a_released_journal_is_adopted_and_goes_on_counting(tmp_path: Path) -> None:
    first = Journal.create(tmp_path)
    for number in (1, 2):
        await first.close(end(number))
    first.release()
    second = Journal.adopt(first.folder)
    second.seq = read_remains(second.folder).seq
    assert await second.close(end(3)) == 3
    assert ids_of(first.folder) == ["S 0", "E req_1 1", "E req_2 2", "S 2", "E req_3 3"]
    second.release()


async def test_nothing_is_written_after_release(journal: Journal, tmp_path: Path) -> None:
    other = Journal.create(tmp_path / "other")
    other.release()
    with pytest.raises(JournalUnavailable):
        await other.close(end(1))


async def test_what_waits_at_release_is_written(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path)
    closing = journal.close(end(1))
    await asyncio.sleep(0)
    journal.release()
    assert await closing == 1
    assert ids_of(journal.folder) == ["S 0", "E req_1 1"]


async def test_a_removed_journal_is_gone_and_cannot_be_adopted(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path)
    await journal.close(end(1))
    journal.remove()
    assert os.listdir(tmp_path) == []
    with pytest.raises(JournalTaken):
        Journal.adopt(journal.folder)


WRITER = """
import asyncio, sys
from pathlib import Path
from inference.journal import Journal
from tests.inference.facts import end, opening

async def main():
    journal = Journal.create(Path(sys.argv[1]), segment_bytes=20_000)
    number = 0
    while True:
        await asyncio.gather(*(journal.open(opening(number + n)) for n in range(5)))
        written = await asyncio.gather(*(journal.close(end(number + n)) for n in range(3)))
        print(written[-1], flush=True)
        number += 5

asyncio.run(main())
"""


def only_journal(root: Path) -> Path:
    [folder] = root.iterdir()
    return folder


def killed_writer(root: Path, after_seq: int) -> int:
    """Kill a process in the middle of journalling; the last number it said it had written."""
    with subprocess.Popen(
        (sys.executable, "-c", WRITER, str(root)), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        said = 0
        while said < after_seq:
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split(b"\n")[:-1]
    return int(rest[-1]) if rest else said


@pytest.mark.fault
async def test_what_a_killed_process_said_was_written_is_there(tmp_path: Path) -> None:
    said = killed_writer(tmp_path, 300)
    folder = only_journal(tmp_path)
    remains = read_remains(folder)
    seqs = [one.seq for one in ends_of(folder)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert remains.seq == len(seqs) >= said
    assert len(segments_of(folder)) > 1

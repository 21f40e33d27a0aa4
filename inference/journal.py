"""Facts first on disk: an append-only journal a process, which survives the process.

A journal is a folder `<root>/<journal id>/` with a `lock` its owner holds for life and segments
`NNNNNNNN.jnl`. Lines are `O <opening>`, `E <end or feedback>` and, first in each segment,
`S <seq>`: how many ends all earlier segments held; feedback is counted as one. A line counts once
its newline is there. Nothing is synced: what is written survives this process, not the machine.
"""

import asyncio
import fcntl
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

import structlog

from inference.contract.codec import add_event
from inference.contract.events import Numbered, Opening

SEGMENT_BYTES = 8 * 1024 * 1024
"""Some five thousand requests: small enough to be gone soon after the recorder has them, large
enough that a busy process starts one in seconds, not many in one."""

OPENING, END, START = b"O ", b"E ", b"S "
SEGMENT_GLOB = "[0-9]*.jnl"
LOCK_NAME = "lock"

UNENCODABLE = (TypeError, ValueError, RecursionError)
"""What an event raises that holds what JSON can't, or has a number already."""

log = structlog.get_logger(__name__)


class JournalUnavailable(Exception):
    """The journal could not be written: the disk is full or failing. Nothing was recorded."""


class JournalTaken(Exception):
    """The journal has a living owner, or is gone."""


_Entry = tuple[str, Opening | None, "asyncio.Future[int]"]
"""A fact's request, what it was if it is no end, and who waits."""


def segment_name(number: int) -> str:
    """The file name of a journal's n-th segment, from 1."""
    return f"{number:08d}.jnl"


def segments_of(folder: Path) -> tuple[Path, ...]:
    """A journal's segments, oldest first."""
    return tuple(sorted(folder.glob(SEGMENT_GLOB)))


class Journal:
    """One journal, open for appending. All appends of a loop turn go out in one write.

    `events_lost_total` counts ends that could not be written, the last at `events_lost_at` (seconds
    since the epoch); those whose opening was are closed as lost when the journal is adopted.
    `backlog` counts ends not yet handed to the stream.
    """

    def __init__(self, folder: Path, lock: int | None, *, segment: int, segment_bytes: int) -> None:
        self.folder = folder
        self.journal_id = folder.name
        self.segment = segment
        self.seq = 0
        self.fed_seq = 0
        self.events_lost_total = 0
        self.events_lost_at: float | None = None
        self.grown = asyncio.Event()
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._file: int | None = None
        self._size = 0
        self._full_size = 0
        self._pending: list[_Entry] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lines = bytearray()
        self._pending_ends = 0
        self._unended: dict[str, tuple[Opening, ...]] = {}
        self._is_writable = True
        self._is_released = False

    @classmethod
    def create(cls, root: Path, *, segment_bytes: int = SEGMENT_BYTES) -> "Journal":
        """Start a journal of this process below `root`.

        A disk that won't have it is tried again with every write.
        """
        journal = cls(
            root / f"jnl_{secrets.token_hex(10)}", None, segment=0, segment_bytes=segment_bytes
        )
        with suppress(OSError):
            journal._appear()
        return journal

    @classmethod
    def adopt(cls, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> "Journal":
        """Take over a dead process's journal, or raise JournalTaken.

        What is written goes to a segment of its own; the adopter sets `seq` to the number of ends
        found before it writes any. Torn lines stay behind in the old segments.
        """
        lock = lock_journal(folder)
        segments = segments_of(folder)
        last = int(segments[-1].stem) if segments else 0
        return cls(folder, lock, segment=last, segment_bytes=segment_bytes)

    @property
    def backlog(self) -> int:
        """Ends written and not yet handed to the stream."""
        return max(0, self.seq - self.fed_seq)

    def open(self, opening: Opening) -> "asyncio.Future[int]":
        """Done once the opening is written; fails with JournalUnavailable if it was not."""
        lines = self._lines
        start = len(lines)
        try:
            add_event(lines, opening, mark=OPENING)
        except UNENCODABLE as error:
            return self._refused(error, start)
        return self._enter(opening.event_id, opening)

    def close(self, end: Numbered) -> "asyncio.Future[int]":
        """Done once the end is written, with its number; fails with JournalUnavailable like `open`.

        So is feedback, which ends nothing. It is written even if the caller is cancelled while
        waiting. Its own number is that of no journal yet: it is given the next one of this. That is
        the one after those that wait, for of what is written at once nothing gets into the journal
        after the first that doesn't.
        """
        lines = self._lines
        start = len(lines)
        seq = self.seq + self._pending_ends + 1
        try:
            add_event(lines, end, mark=END, journal=self.journal_id, seq=seq)
        except UNENCODABLE as error:
            self.events_lost_total += 1
            return self._refused(error, start)
        self._pending_ends += 1
        return self._enter(end.event_id, None)

    def release(self) -> None:
        """Write what is pending and let go of the journal: anyone may adopt it from now on."""
        self._flush()
        self._let_go()

    def remove(self) -> None:
        """Delete the journal, oldest segment first, and let go of it."""
        self._close_file()
        for path in segments_of(self.folder):
            path.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        self._is_released = True
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)

    def _appear(self) -> None:
        """Make the folder. It gets its name only once it is locked: nobody adopts it half made."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.folder.with_name(f".{self.folder.name}")
        draft.mkdir(exist_ok=True, mode=0o700)
        lock = lock_journal(draft)
        try:
            draft.rename(self.folder)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def _enter(self, event_id: str, opening: Opening | None) -> "asyncio.Future[int]":
        """Have the line that was added written with all others of this turn of the loop."""
        loop = self._loop
        if loop is None or not self._pending:
            # asked for once a turn: that is a system call
            self._loop = loop = asyncio.get_running_loop()
            if self._is_released:
                self._lines, self._pending_ends = bytearray(), 0
                return _failed(loop, JournalUnavailable("the journal is closed"))
            loop.call_soon(self._flush)
        written: asyncio.Future[int] = loop.create_future()
        self._pending.append((event_id, opening, written))
        return written

    def _refused(self, error: Exception, start: int) -> "asyncio.Future[int]":
        """Take back what was added of an event that can't be told."""
        del self._lines[start:]
        log.error("event cannot be encoded", error=type(error).__name__)
        unavailable = JournalUnavailable("the event cannot be encoded")
        unavailable.__cause__ = error
        return _failed(asyncio.get_running_loop(), unavailable)

    def _flush(self) -> None:
        entries, self._pending = self._pending, []
        lines, self._lines = self._lines, bytearray()
        self._pending_ends = 0
        written, error = self._write(lines) if entries else (0, None)
        unended, seq = self._unended, self.seq
        for event_id, opening, waiter in entries if error is None else entries[:written]:
            if opening is None:
                seq += 1
                unended.pop(event_id, None)
            elif event_id in unended:
                unended[event_id] += (opening,)
            else:
                unended[event_id] = (opening,)
            if not waiter.done():
                waiter.set_result(seq)
        self.seq = seq
        if seq > self.fed_seq:
            self.grown.set()
        if error is not None:
            self._fail(entries[written:], error)
        elif entries and not self._is_writable:
            self._is_writable = True
            log.info("journal writable again", journal=self.journal_id)

    def _fail(self, entries: list[_Entry], error: OSError) -> None:
        if self._is_writable:
            self._is_writable = False
            log.error("journal cannot be written", journal=self.journal_id, error=repr(error))
        for _, opening, written in entries:
            if opening is None:
                self.events_lost_total += 1
                self.events_lost_at = time.time()
            if not written.done():
                written.set_exception(JournalUnavailable("the journal cannot be written"))

    def _write(self, lines: bytearray) -> tuple[int, OSError | None]:
        """Write lines; if something stopped that, return how many are whole on disk, and what."""
        try:
            file = self._writable_segment()
        except OSError as refusal:
            return 0, refusal
        size, error = _write_all(file, lines)
        if error is None:
            self._size += size
            return 0, None
        kept = lines.rfind(b"\n", 0, size) + 1
        self._size += kept
        if size != kept:
            self._cut_tail(file)
        return lines.count(b"\n", 0, kept), error

    def _cut_tail(self, file: int) -> None:
        """Drop the torn line; if even that fails, leave it behind as the end of its segment."""
        try:
            os.ftruncate(file, self._size)
        except OSError:
            self._close_file()

    def _writable_segment(self) -> int:
        if self._file is not None and self._size < self._full_size:
            return self._file
        return self._start_segment()

    def _start_segment(self) -> int:
        """Open the next segment; it takes the unended openings along, so no older one is needed."""
        if self._lock is None:
            self._appear()
        number = self.segment + 1
        path = self.folder / segment_name(number)
        head = bytearray(b"%b%d\n" % (START, self.seq))
        for openings in self._unended.values():
            for opening in openings:
                add_event(head, opening, mark=OPENING)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        size, error = _write_all(file, head)
        if error is not None:
            os.close(file)
            with suppress(OSError):
                path.unlink()
            raise error
        self._close_file()
        self._file, self._size, self.segment = file, size, number
        self._full_size = size + self._segment_bytes
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def lock_journal(folder: Path) -> int:
    """Take a journal's lock and return its descriptor, or raise JournalTaken.

    The lock goes with the process, however that ends.
    """
    path = folder / LOCK_NAME
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError as error:
        raise JournalTaken(folder.name) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == path.stat().st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    raise JournalTaken(folder.name)


def _failed(loop: asyncio.AbstractEventLoop, error: Exception) -> "asyncio.Future[int]":
    written: asyncio.Future[int] = loop.create_future()
    written.set_exception(error)
    return written


def _write_all(file: int, data: bytearray) -> tuple[int, OSError | None]:
    """Write until done or refused: the bytes that went out, and the refusal."""
    sent = 0
    with memoryview(data) as view:
        while sent < len(data):
            try:
                sent += os.write(file, view[sent:] if sent else view)
            except OSError as error:
                return sent, error
    return sent, None

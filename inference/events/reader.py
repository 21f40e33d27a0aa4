"""Reading a journal back: its ends in order, and what a dead process left open."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from inference.contract.codec import CodecError, decode_opening
from inference.contract.events import Opening
from inference.contract.values import frozen
from inference.journal import END, OPENING, START, segments_of

READ_BYTES = 512 * 1024
"""What is read at once: from the page cache a fifth of a millisecond, so it's done on the loop."""

log = structlog.get_logger(__name__)


@frozen
class StoredEnds:
    """Ends as they stand in a journal: their encoded bytes, and the number of the last of them."""

    encoded: list[bytes]
    last_seq: int

    def after(self, seq: int) -> list[bytes]:
        """Those with a higher number."""
        return self.encoded[max(len(self.encoded) - max(self.last_seq - seq, 0), 0) :]


class JournalReader:
    """Reads ends in order from the oldest segment on, and goes on as the journal grows.

    Only whole lines are read; a torn one at the end of an old segment was never written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._file: int | None = None
        self._rest = b""
        self._seq = 0

    def read(self) -> StoredEnds | None:
        """Return some of the next ends; None means that there are no more yet."""
        following: Path | None = None
        while True:
            data = self._read_some()
            if data:
                if ends := self._ends_in(data):
                    return StoredEnds(ends, self._seq)
            elif following is not None:
                self._go_to(following)
                following = None
            else:
                # once more before it is gone to: by now the current one is complete
                following = self._following()
                if following is None:
                    return None

    def rewind(self) -> None:
        """Begin again at the oldest segment there is."""
        self.close()
        self._path = None

    def close(self) -> None:
        """Give the file back; reading may go on after `rewind`."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._rest = b""

    def _following(self) -> Path | None:
        """The next segment. What is read of the current one after this was asked is all of it."""
        here = self._path
        return next((p for p in segments_of(self._folder) if here is None or p > here), None)

    def _read_some(self) -> bytes:
        return b"" if self._file is None else os.read(self._file, READ_BYTES)

    def _go_to(self, path: Path) -> None:
        self.close()
        self._file = os.open(path, os.O_RDONLY)
        self._path = path

    def _ends_in(self, data: bytes) -> list[bytes]:
        """The ends among these bytes of a segment, which are counted."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and (before := _start_seq(lines[0])) is not None:
            self._seq = before  # which only the first line of a segment says
        ends = [line[len(END) :] for line in lines if line.startswith(END)]
        self._seq += len(ends)
        return ends


def seq_before(segment: Path) -> int | None:
    """How many ends all segments before this one held; None if it was not begun properly."""
    with segment.open("rb") as file:
        line = file.readline(64)
    return _start_seq(line) if line.endswith(b"\n") else None


def _start_seq(line: bytes) -> int | None:
    """The number a segment begins after, if this is the line that says so."""
    digits = line.removeprefix(START).rstrip(b"\n")
    return int(digits) if line.startswith(START) and digits.isdigit() else None


@dataclass(frozen=True, slots=True)
class Remains:
    """What is in a journal nobody writes: the number of its ends, and requests without one.

    A request is the openings of its attempts, in their order.
    """

    seq: int
    unended: tuple[tuple[Opening, ...], ...]


class _Ids(msgspec.Struct):
    event_id: str


class _Fact(msgspec.Struct):
    d: _Ids


_event_id = msgspec.json.Decoder(_Fact)


def read_remains(folder: Path) -> Remains:
    """Read a whole journal. Lines that cannot be read are logged and passed over."""
    seq = 0
    unended: dict[str, list[bytes]] = {}
    for segment in segments_of(folder):
        with segment.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                seq = _note(line, seq, unended)
    requests = (tuple(_openings(lines)) for lines in unended.values())
    return Remains(seq, tuple(openings for openings in requests if openings))


def _note(line: bytes, seq: int, unended: dict[str, list[bytes]]) -> int:
    """Take one line into account and return the number of ends so far."""
    before = _start_seq(line)
    if before is not None:
        return before
    is_end = line.startswith(END)
    try:
        event_id = _event_id.decode(line[len(END) :]).d.event_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        log.error("journal line unreadable", bytes=len(line))
        return seq + is_end
    if is_end:
        unended.pop(event_id, None)
    elif line.startswith(OPENING):
        unended.setdefault(event_id, []).append(line[len(OPENING) :])
    return seq + is_end


def _openings(lines: Iterable[bytes]) -> Iterator[Opening]:
    """One opening an attempt: each segment repeats those that were open when it began."""
    for line in dict.fromkeys(lines):
        try:
            yield decode_opening(line)
        except CodecError as error:
            log.error("opening unreadable", error=str(error))

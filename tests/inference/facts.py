"""Openings and ends with ids of their own, for the tests of journal, stream and replay."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.contract.codec import decode_end, decode_opening
from inference.contract.events import End, Opening
from inference.events.reader import JournalReader
from inference.journal import segments_of
from tests.contract.samples import END, OPENING


def opening(number: int, **changes: Any) -> Opening:
    return replace(OPENING, event_id=f"req_{number}", **changes)


def end(number: int, **changes: Any) -> End:
    return replace(END, event_id=f"req_{number}", journal="", seq=0, **changes)


def lines_of(folder: Path) -> list[bytes]:
    """Every whole line of a journal, oldest first."""
    return [
        line for segment in segments_of(folder) for line in segment.read_bytes().split(b"\n")[:-1]
    ]


def ids_of(folder: Path) -> list[str]:
    """What each line says, short: `O req_1`, `E req_1 1`, `S 0`."""
    return [_short(line) for line in lines_of(folder)]


def _short(line: bytes) -> str:
    if line.startswith(b"O "):
        return f"O {decode_opening(line[2:]).event_id}"
    if line.startswith(b"E "):
        read = decode_end(line[2:])
        return f"E {read.event_id} {read.seq}"
    return line.decode()


def ends_of(folder: Path) -> list[End]:
    """Every end of a journal, as a reader finds them."""
    reader = JournalReader(folder)
    ends = []
    while stored := reader.read():
        ends += map(decode_end, stored.encoded)
    reader.close()
    return ends

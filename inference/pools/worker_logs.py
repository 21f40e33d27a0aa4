"""Files with what workers print: bounded, and still written when their supervisor is gone."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from inference.decisions.engine import START_MARK

LOG_MODE = 0o600
ROTATE_BYTES = 16 * 1024 * 1024
"""Two files of this size a worker are kept: days of an engine's normal talk."""

TAIL_BYTES = 16_384

_LINE_END = re.compile(r"[\r\n]")
"""Progress bars end their lines with a carriage return."""


def log_path(folder: Path, worker_id: str) -> Path:
    """The file a worker prints to."""
    return folder / f"{worker_id}.log"


def rotate_if_large(log: Path, *, limit_bytes: int = ROTATE_BYTES) -> bool:
    """Move a large log aside, in place of the one moved before; True if it was.

    Its writer holds the file open and knows nothing of us, so it is copied and emptied. What is
    printed in between, a few milliseconds, is lost.
    """
    try:
        if log.stat().st_size <= limit_bytes:
            return False
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        with log.open("r+b") as file:
            file.truncate(0)
    except FileNotFoundError:
        return False
    return True


def mark_start(log: Path) -> None:
    """Write where another life of the worker begins. Raises OSError."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, LOG_MODE)
    try:
        os.write(descriptor, f"{START_MARK}\n".encode())
    finally:
        os.close(descriptor)


def tail_of(log: Path) -> str:
    """The end of a log, empty if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


Mark = tuple[int, int, int]


def mark_of(log: Path) -> Mark | None:
    """What changes whenever a log does; None if there is none."""
    try:
        stat = log.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Tail:
    """The last whole lines of a log, and the bytes of all of it."""

    size: int
    text: str


def whole_lines_of(log: Path, *, limit_bytes: int) -> Tail:
    """The end of a log without the piece of a line that it begins with; empty if there is none."""
    try:
        with log.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - limit_bytes))
            text = file.read(limit_bytes).decode(errors="replace")
    except OSError:
        return Tail(0, "")
    if size > limit_bytes:
        end = _LINE_END.search(text)
        text = text[end.end() :] if end else ""
    return Tail(size, text)

"""Files with what workers print: bounded, and still written when their supervisor is gone."""

import os
import shutil
from pathlib import Path

from inference.decisions.engine import START_MARK

LOG_MODE = 0o600
ROTATE_BYTES = 16 * 1024 * 1024
"""Two files of this size a worker are kept: days of an engine's normal talk."""

TAIL_BYTES = 16_384


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

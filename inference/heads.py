"""Heads of messages that came before, which are known again without a parser.

A client sends one head over and over but for the length of its body, and so does a server for as
long as its `date` stays the same. What a parser has read of one holds of its bytes whenever they
come again.
"""

import re
from typing import Generic, TypeVar

MAX_KNOWN_BYTES = 2_048
"""Each client's connection keeps one for as long as it is open."""

_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})(?=\r\n)", re.IGNORECASE)
_CODING_LINE = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)
_MOST_DIGITS = 9

# Who says something new in every head is asked to repeat it ever more seldom.
_PATIENCE, _SELDOM = 8, 64

T = TypeVar("T")


class HeadMemory(Generic[T]):
    """The last head that may come again, but for its content-length, and what was read of it."""

    __slots__ = ("_after", "_before", "_in_vain", "_read", "_start")

    def __init__(self) -> None:
        self._before = b""
        self._start = 0
        self._after = b""
        self._read: T | None = None
        self._in_vain = 0

    def find(self, data: bytes) -> tuple[T, int, int] | None:
        """What was read of the head that these bytes begin with, how long its body is, and where
        that begins; None if it is another head, or not all of it is there.
        """
        if not data.startswith(self._before) or self._read is None:
            return None
        start = self._start
        end = data.find(b"\r", start, start + _MOST_DIGITS + 1)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        self._in_vain = 0
        return self._read, int(digits), end + len(self._after)

    def learn(self, data: bytes, read: T) -> None:
        """Remember the head that these bytes begin with, if it has a length; `read` is what the
        parser has read of it.
        """
        self._in_vain += 1
        if self._in_vain > _PATIENCE and self._in_vain % _SELDOM:
            return
        self._read = None
        end = data.find(b"\r\n\r\n", 0, MAX_KNOWN_BYTES) + 2
        lengths = list(_LENGTH_LINE.finditer(data, 0, end)) if end > 1 else []
        if len(lengths) == 1 and not _CODING_LINE.search(data, 0, end):
            first, last = lengths[0].span(1)
            self._before, self._start = data[:first], first
            self._after, self._read = data[last : end + 2], read

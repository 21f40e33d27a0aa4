"""Chunks of a body as servers mostly write them: one a read, which is known by its length."""

from functools import lru_cache

LINE_END = b"\r\n"
_NO_CHUNK = b"\0"  # nothing begins so


@lru_cache(maxsize=4_096)
def size_line(length: int) -> bytes:
    """The first line of a chunk of this many bytes in all, as servers write it."""
    digits = 1
    while length - digits - 4 >= 16**digits:
        digits += 1
    size = length - digits - 4
    return b"%x\r\n" % size if size > 0 else _NO_CHUNK

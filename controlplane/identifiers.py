"""Ids of rows: a prefix for the reader and a ULID, so that they sort by time and never clash."""

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
ULID_PATTERN = "[0-9a-hjkmnp-tv-z]{26}"


def encode_ulid(at_ms: int, randomness: bytes) -> str:
    """Write 48 bits of time and 80 of randomness as 26 lower-case base-32 characters."""
    number = (at_ms << 80) | int.from_bytes(randomness, "big")
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range((_LENGTH - 1) * 5, -1, -5))


def new_ulid() -> str:
    """A ULID of now."""
    return encode_ulid(time.time_ns() // 1_000_000, os.urandom(10))


def new_id(prefix: str) -> str:
    """An id such as `pool_01jd…`."""
    return f"{prefix}_{new_ulid()}"

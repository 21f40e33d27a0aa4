"""Ids that sort by time: `req_` and 26 characters of lower-case Crockford base32 (a ULID)."""

from functools import lru_cache

EVENT_PREFIX = "req_"
RANDOM_BITS = 80

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_TIME_SHIFTS = (20, 10, 0)


def event_id(at_ms: int, chance: int) -> str:
    """The id of a request received at `at_ms` (epoch), made unique by 80 bits of chance."""
    pairs = _PAIRS
    return (
        f"{_beginning(at_ms >> 20)}{pairs[at_ms >> 10 & 1023]}{pairs[at_ms & 1023]}"
        f"{pairs[chance >> 70]}{pairs[chance >> 60 & 1023]}"
        f"{pairs[chance >> 50 & 1023]}{pairs[chance >> 40 & 1023]}{pairs[chance >> 30 & 1023]}"
        f"{pairs[chance >> 20 & 1023]}{pairs[chance >> 10 & 1023]}{pairs[chance & 1023]}"
    )


@lru_cache(maxsize=8)
def _beginning(at: int) -> str:
    """What all requests of some twenty minutes have in common."""
    return EVENT_PREFIX + "".join(_PAIRS[at >> shift & 1023] for shift in _TIME_SHIFTS)

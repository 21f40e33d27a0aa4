"""Ids that sort by time: `req_` and 26 characters of lower-case Crockford base32 (a ULID)."""

EVENT_PREFIX = "req_"
RANDOM_BITS = 80

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SHIFTS = tuple(range(120, -1, -10))


def event_id(at_ms: int, chance: int) -> str:
    """The id of a request received at `at_ms` (epoch), made unique by 80 bits of chance."""
    number = at_ms << RANDOM_BITS | chance
    return EVENT_PREFIX + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])

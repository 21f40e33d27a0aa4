"""Names must be the same, and in the same order."""

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.quantities import TIMES
from inference.decisions.guarding.reading import Reading


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """A name that the other doesn't have, however it writes it; or two that changed places."""
    first, second = _names(one), _names(other)
    in_one, in_other = _words(one), _words(other)
    if not (set(first) <= set(in_other) and set(second) <= set(in_one)):
        return Doubt(first, second)
    both = set(first) | set(second)
    placed = tuple(tuple(word for word in words if word in both) for words in (in_one, in_other))
    return Doubt(*placed) if len(both) > 1 and placed[0] != placed[1] else None


def _names(reading: Reading) -> tuple[str, ...]:
    return tuple(_said(name) for name in reading.capitals)


def _words(reading: Reading) -> tuple[str, ...]:
    return tuple(_said(word) for word in reading.spelled)


def _said(word: str) -> str:
    """A name however it is written; Jan is January."""
    bare = word.casefold().removesuffix("'s")
    return TIMES.get(bare, bare)

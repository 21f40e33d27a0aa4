"""Whose matter it is must not change: mine, yours, hers."""

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.reading import Reading
from inference.decisions.guarding.vocabulary import PERSONS

# Who asks, or is asked, is often not named at all.
_UNNAMED = frozenset(("i", "you"))


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other people, in another order, or one who asks in place of one who is asked."""
    first, second = _persons(one), _persons(other)
    named = tuple(
        tuple(person for person in persons if person not in _UNNAMED) for persons in (first, second)
    )
    unnamed = tuple(_UNNAMED & set(persons) for persons in (first, second))
    is_swapped = bool(unnamed[0] and unnamed[1] and unnamed[0] != unnamed[1])
    return Doubt(first, second) if named[0] != named[1] or is_swapped else None


def _persons(reading: Reading) -> tuple[str, ...]:
    return tuple(PERSONS[word] for word in reading.words if word in PERSONS)

"""What is quoted must be the same to the letter."""

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.reading import Reading


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other quotations, or in another order. What wasn't read to its end is like nothing."""
    if not (one.is_whole and other.is_whole) and one != other:
        return Doubt(one.quoted, other.quoted)
    return differing(one.quoted, other.quoted)

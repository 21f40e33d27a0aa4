"""What looks like code, a path or an address must be the same to the letter."""

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.reading import Reading


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other pieces of code, or in another order."""
    return differing(one.code, other.code)

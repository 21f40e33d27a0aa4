"""What every guard is given, and promises."""

from collections.abc import Callable
from dataclasses import dataclass

from inference.decisions.guarding.reading import Reading


@dataclass(frozen=True, slots=True)
class Doubt:
    """What of two questions differs, as a guard sees it."""

    one: tuple[str, ...]
    other: tuple[str, ...]


Guard = Callable[[Reading, Reading], Doubt | None]
"""Say what keeps an answer to one question from answering the other, or None.

Pure, the same whichever of the two comes first, and None for two readings that are equal. Takes a
time that is linear in what is read.
"""


def differing(one: tuple[str, ...], other: tuple[str, ...]) -> Doubt | None:
    """A doubt if two readings have other such things, or in another order."""
    return None if one == other else Doubt(one, other)

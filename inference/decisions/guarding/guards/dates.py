"""Days, months, times of the day and where in time they lie must be the same."""

from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.quantities import TIMES
from inference.decisions.guarding.reading import Reading

# These are words of other kinds as well, told by how they are written.
_CAPITALS: Mapping[str, str] = {
    "May": "may",
    "March": "march",
    "Mar": "march",
    "Sat": "saturday",
    "Sun": "sunday",
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other words of time, or more of them."""
    return differing(_times(one), _times(other))


def _times(reading: Reading) -> tuple[str, ...]:
    plain = [TIMES[word] for word in reading.words if word in TIMES]
    spelled = [_CAPITALS[word] for word in reading.capitals if word in _CAPITALS]
    return tuple(sorted(plain + spelled))

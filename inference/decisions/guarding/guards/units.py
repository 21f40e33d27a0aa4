"""Units and currencies must be the same."""

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.quantities import SHORT_UNIT_CHARS, UNITS
from inference.decisions.guarding.reading import Reading

_SIGNS = frozenset("$€£¥₹₽₿%°℃℉")


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other units, or more of them."""
    return differing(_units(one), _units(other))


def _units(reading: Reading) -> tuple[str, ...]:
    found = []
    before = ""
    for word in reading.spelled:
        unit = UNITS.get(word.casefold())
        if unit is not None and (len(word) > SHORT_UNIT_CHARS or before.isdecimal()):
            # M and m, B and b tell apart what is a thousand million times as much
            found.append(unit if len(word) > SHORT_UNIT_CHARS else f"{unit} {word}")
        before = word
    signs = [one for piece in reading.code for one in piece if one in _SIGNS]
    return tuple(sorted(found + signs))

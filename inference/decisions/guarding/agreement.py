"""Whether two answers to one question state the same, as far as it can be told without a model."""

import re

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.guards import language
from inference.decisions.guarding.quantities import NUMBERS
from inference.decisions.guarding.reading import Reading, read

_LISTED = re.compile(r"(?m)^\s*(?:step\s+)?\d{1,3}[.):]\s", re.IGNORECASE)
_POLARITY = {
    **dict.fromkeys(("yes", "yeah", "yep", "correct", "true", "ja", "oui", "sí"), True),
    **dict.fromkeys(("no", "nope", "not", "incorrect", "false", "nein", "non", "never"), False),
}


def have_same_facts(one: str, other: str) -> bool:
    """The same numbers, the same yes or no at the beginning, and one language.

    How much is said around them may differ, and so may the numbers that a list's lines begin with.
    """
    first, second = read(_LISTED.sub("", one)), read(_LISTED.sub("", other))
    doubt: Doubt | None = language.doubt(first, second)
    return doubt is None and _numbers(first) == _numbers(second) and _says(first) is _says(second)


def _numbers(reading: Reading) -> frozenset[str]:
    written = (word for word in reading.spelled if word.isdecimal())
    named = (NUMBERS.get(word.casefold()) for word in reading.spelled)
    # a few small words are no numbers in running text: one of these, at first, twice as good
    values = {value for value in named if value not in (None, "0", "1", "2")}
    return frozenset(str(int(word)) if len(word) < 20 else word for word in written) | frozenset(
        value for value in values if value
    )


def _says(reading: Reading) -> bool | None:
    """Whether the answer begins with a yes or a no."""
    return _POLARITY.get(reading.words[0]) if reading.words else None

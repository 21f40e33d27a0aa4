"""Numbers must be the same, in the same order, be they digits or words."""

import re
from collections.abc import Iterator

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.quantities import NUMBERS
from inference.decisions.guarding.reading import Reading

_ROMAN = re.compile(r"[IVXLCDM]{2,8}")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other numbers, more of them, or in another order."""
    return differing(tuple(_numbers(one)), tuple(_numbers(other)))


def _numbers(reading: Reading) -> Iterator[str]:
    for word in reading.spelled:
        if word.isdecimal():
            # in any script's digits, and without the zeros before them
            yield str(int(word)) if len(word) < 20 else word
        elif (named := NUMBERS.get(word.casefold())) is not None:
            yield named
        elif _ROMAN.fullmatch(word):
            yield str(_roman(word))


def _roman(word: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in word]
    following = [*values[1:], 0]
    return sum(-one if one < after else one for one, after in zip(values, following, strict=True))

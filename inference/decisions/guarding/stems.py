"""Words without their English inflection, and synonyms by one name."""

from inference.decisions.guarding.quantities import NUMBERS, TIMES, UNITS
from inference.decisions.guarding.reading import Reading
from inference.decisions.guarding.vocabulary import (
    FUNCTION_WORDS,
    IRREGULAR,
    KEPT_WHOLE,
    SYNONYMS,
)

_VOWELS = frozenset("aeiouy")
_SHORTEST = 4


def stem(word: str) -> str:
    """A word as all its inflections have it; two words with other meanings keep apart."""
    if (named := NUMBERS.get(word) or TIMES.get(word) or UNITS.get(word)) is not None:
        return named
    bare = _bare(IRREGULAR.get(word, word))
    return _SYNONYMS.get(bare, bare)


def content(reading: Reading) -> tuple[str, ...]:
    """The words that say what a question is about, by their stems, in their order."""
    return tuple(stem(word) for word in reading.words if word not in FUNCTION_WORDS)


def _bare(word: str) -> str:
    if len(word) < _SHORTEST or word in KEPT_WHOLE or not word.isascii():
        return word
    if word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    if word.endswith(("ss", "us", "is", "ous")):
        return word
    if word.endswith(("sses", "ches", "shes", "xes", "zzes")):
        return word[:-2]
    if word.endswith("s"):
        return _without_e(word[:-1])
    for ending in ("ing", "ed"):
        begin = word.removesuffix(ending)
        if begin != word and len(begin) >= 3 and _VOWELS & set(begin):
            return _without_e(_undoubled(begin))
    return _without_e(word)


def _undoubled(begin: str) -> str:
    """`stopp` as `stop`, but `press` and `install` as they are."""
    is_doubled = begin[-1] == begin[-2] and begin[-1] not in "lsz"
    return begin[:-1] if is_doubled else begin


def _without_e(word: str) -> str:
    """`change` and `chang` are one: of which inflection a final e fell victim isn't known."""
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST else word


_SYNONYMS = {_bare(word): _bare(one) for word, one in SYNONYMS.items()}

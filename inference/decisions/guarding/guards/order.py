"""Who does what to whom, and what comes from where, must not be turned round."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.reading import Reading
from inference.decisions.guarding.stems import stem
from inference.decisions.guarding.vocabulary import FUNCTION_WORDS

_MARKERS: Mapping[str, str] = {
    **dict.fromkeys(("to", "into", "onto", "towards"), "to"),
    **{
        word: word
        for word in """
        from than before after until since by minus versus vs against over under for through via
        except without like as if because while""".split()
    },
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """A preposition with another word behind it, or three words in reverse."""
    first, second = _marked(one), _marked(other)
    for marker in sorted(set(first) & set(second)):
        if first[marker] != second[marker]:
            return Doubt((marker, *first[marker]), (marker, *second[marker]))
    return _reversed(_content(one), _content(other))


def _marked(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Of each preposition the content word that follows next, in order."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for word in reading.words:
        if word in _MARKERS:
            waiting.append(_MARKERS[word])
        elif word not in FUNCTION_WORDS:
            for marker in waiting:
                found[marker] = (*found.get(marker, ()), stem(word))
            waiting = []
    return found


def _content(reading: Reading) -> list[str]:
    return [stem(word) for word in reading.words if word not in FUNCTION_WORDS]


def _reversed(first: list[str], second: list[str]) -> Doubt | None:
    """Three words in common that stand the other way round: what acts, the act, what it is on.

    Words that one of the two has several times aren't looked at.
    """
    counts, place = Counter(first), {word: at for at, word in enumerate(second)}
    common = {one for one, count in Counter(second).items() if count == counts[one] == 1}
    places = [place[word] for word in first if word in common]
    return Doubt(tuple(first), tuple(second)) if _longest_fall(places) >= 3 else None


def _longest_fall(places: list[int]) -> int:
    """How many of these, not necessarily side by side, fall from first to last."""
    tails: list[int] = []
    for place in places:
        at = bisect_left(tails, -place)
        tails[at : at + 1] = [-place]
    return len(tails)

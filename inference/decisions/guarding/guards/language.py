"""Both must be in one language, and in one script."""

import unicodedata
from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.reading import Reading

_COMMON: Mapping[str, frozenset[str]] = {
    "en": frozenset(
        """the is are what how do does of to my you your which why where when who can and in
        for with it this should explain give show was were please tell""".split()
    ),
    "de": frozenset(
        """der die das ist sind was wie ich mein meine du dein wo wann wer warum kann und ein eine
        den dem wird werden nicht mit für auf zu von welche welcher wieso bitte""".split()
    ),
    "fr": frozenset(
        """le la les est sont que quel quelle comment je mon ma mes vous où quand qui pourquoi puis
        et un une des du dans pour avec ne pas sur est-ce ce cette faire""".split()
    ),
    "es": frozenset(
        """el la los las es son qué que cómo como yo mi tu dónde donde cuándo quién por para con
        está esta un una de del en y cuál cuánto puedo hacer""".split()
    ),
    "it": frozenset(
        """il lo la gli le è sono che cosa come mio mia dove quando chi perché posso e un una di
        del nel per con non qual quale""".split()
    ),
    "pt": frozenset(
        """o a os as é são que como meu minha onde quando quem por para com está um uma de do da em
        e qual posso fazer não""".split()
    ),
    "nl": frozenset(
        """de het een is zijn wat hoe ik mijn jij waar wanneer wie waarom kan en van op met voor
        niet welke""".split()
    ),
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other scripts, or words of other languages."""
    return differing(_scripts(one), _scripts(other)) or _languages_differ(one, other)


def _scripts(reading: Reading) -> tuple[str, ...]:
    """The scripts of all letters, by the first word of their names."""
    letters = {letter for word in reading.words for letter in word if not letter.isdecimal()}
    names = (unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    return tuple(sorted({name for name in names if name != "APOSTROPHE"}))


def _languages_differ(one: Reading, other: Reading) -> Doubt | None:
    first, second = _languages(one), _languages(other)
    return None if not first or not second or first & second else _told(first, second)


def _languages(reading: Reading) -> frozenset[str]:
    """The languages that most of the common words are of; none if there is no such word."""
    words = set(map(str.casefold, reading.spelled))
    counts = {language: len(words & common) for language, common in _COMMON.items()}
    most = max(counts.values())
    return frozenset(one for one, count in counts.items() if count == most and most > 0)


def _told(first: frozenset[str], second: frozenset[str]) -> Doubt:
    return Doubt(tuple(sorted(first)), tuple(sorted(second)))

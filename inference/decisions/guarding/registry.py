"""The guards there are, by kind, cheap ones first."""

from collections.abc import Mapping

from inference.contract.kinds import GuardKind
from inference.decisions.guarding.base import Guard
from inference.decisions.guarding.guards import (
    antonyms,
    code,
    dates,
    language,
    names,
    negation,
    numbers,
    order,
    persons,
    questions,
    quotes,
    units,
    words,
)
from inference.decisions.guarding.reading import Reading

REGISTRY: Mapping[GuardKind, Guard] = {
    GuardKind.QUOTES: quotes.doubt,
    GuardKind.CODE: code.doubt,
    GuardKind.NUMBERS: numbers.doubt,
    GuardKind.NEGATION: negation.doubt,
    GuardKind.DATES: dates.doubt,
    GuardKind.UNITS: units.doubt,
    GuardKind.LANGUAGE: language.doubt,
    GuardKind.PERSONS: persons.doubt,
    GuardKind.QUESTIONS: questions.doubt,
    GuardKind.ANTONYMS: antonyms.doubt,
    GuardKind.NAMES: names.doubt,
    GuardKind.WORDS: words.doubt,
    GuardKind.ORDER: order.doubt,
}


def refusing(one: Reading, other: Reading) -> GuardKind | None:
    """The first guard that won't have the answer to one question for the other, if any."""
    for kind, guard in REGISTRY.items():
        if guard(one, other) is not None:
            return kind
    return None

"""All words that say what a question is about must be in both, but for inflection and synonyms."""

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.reading import Reading
from inference.decisions.guarding.stems import content


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Words that only one has: a contrast if both have some, a condition or a detail if not."""
    first, second = set(content(one)), set(content(other))
    if first == second:
        return None
    return Doubt(tuple(sorted(first - second)), tuple(sorted(second - first)))

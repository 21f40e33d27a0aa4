"""The same must be asked: how or why, may or must, now or then."""

from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.reading import Reading

_ASKED: Mapping[str, str] = {
    **dict.fromkeys(("who", "whom", "whose"), "who"),
    **dict.fromkeys(("must", "obliged"), "must"),
    **dict.fromkeys(("did", "was", "were", "had", "been"), "then"),
    "when": "when",
    "where": "where",
    "why": "why",
    "how": "how",
}
_MAY: Mapping[str, str] = {
    **dict.fromkeys(("can", "could", "may", "might"), "may"),
    "should": "should",
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Another question word, a duty in place of a right, or the past in place of now."""
    return differing(_asked(one), _asked(other))


def _asked(reading: Reading) -> tuple[str, ...]:
    asked = {_ASKED[word] for word in reading.words if word in _ASKED}
    if not asked & {"how", "why", "when", "where", "who"} and "what" not in reading.words:
        # asked for a yes or no, or told to do something
        asked |= {_MAY[word] for word in reading.words if word in _MAY}
    return tuple(sorted(asked))

"""What is negated in one question must be negated in the other, and in the same way."""

from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt, differing
from inference.decisions.guarding.reading import Reading

_NEGATIONS: Mapping[str, str] = {
    **dict.fromkeys(("not", "nicht", "pas", "não", "niet", "не", "不", "没", "沒"), "not"),
    **dict.fromkeys(("no", "non", "kein", "keine", "keinen", "keiner", "geen", "нет"), "no"),
    **dict.fromkeys(("aucun", "aucune", "ningún", "ninguna", "nessun", "无", "無"), "no"),
    **dict.fromkeys(("never", "nie", "niemals", "jamais", "nunca", "mai", "nooit"), "never"),
    **dict.fromkeys(("without", "ohne", "sans", "sin", "senza", "sem", "zonder", "без"), "without"),
    **dict.fromkeys(("except", "excluding", "excluded", "exclude", "besides", "außer"), "except"),
    **dict.fromkeys(("sauf", "excepto", "salvo", "behalve"), "except"),
    **dict.fromkeys(("nobody", "niemand", "personne", "nadie", "nessuno"), "nobody"),
    **dict.fromkeys(("nothing", "nichts", "rien", "nada", "niente", "niets"), "nothing"),
    **dict.fromkeys(("unless", "neither", "nor", "none", "nowhere", "hardly", "barely"), "un"),
    **dict.fromkeys(("instead", "lack", "lacking", "lacks", "minus", "avoid", "barring"), "less"),
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """Other negations, or more of them."""
    return differing(_negations(one), _negations(other))


def _negations(reading: Reading) -> tuple[str, ...]:
    return tuple(sorted(_NEGATIONS[word] for word in reading.words if word in _NEGATIONS))

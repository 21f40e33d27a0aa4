# ruff: noqa: RUF001 (quotation marks and signs of many scripts are what this is about)
"""A question taken apart once, for all guards: what is quoted, what is code, and the words.

Every pattern here is linear: no repetition inside another, and none without a bound that may fail.
"""

import re
import unicodedata
import zlib
from dataclasses import dataclass

from inference.decisions.guarding.vocabulary import CONTRACTIONS, FRAMES, PHRASES

CHARS_MAX = 4096
"""What is longer isn't read to its end, so it isn't the same as anything else."""

# Quotation marks by what closes them; the plain single one only between blanks, since it is an
# apostrophe elsewhere. A mark that nothing closes soon opens nothing: else each would be looked
# after to the end of the text.
_QUOTED = re.compile(
    r"```[^`]{0,400}```|`[^`]{0,400}`|\"[^\"]{0,400}\"|“[^”]{0,400}”|«[^»]{0,400}»"
    r"|„[^“”]{0,400}[“”]|‘[^’]{0,400}’(?!\w)|(?<!\S)'[^']{0,400}'(?!\w)|「[^」]{0,400}」"
)
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})
_CODE = re.compile(
    r"[_{}\[\]()<>=/\\|&#@^*+~%$§]|::|\w\.\w|^--?\w|[a-z][A-Z]|\w:\w|^[-−]\d|\w--|--\w|→"
)
_EDGES = ".,;:!?¿¡…？！。，、"
_NUMBER_SIGNS = re.compile(r"^[-+−]?[\d.,:/%]*\d[\d.,:/%]*$")
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# letters with an apostrophe inside, or digits; of scripts without blanks one by one
_WORD = re.compile(rf"[{_UNSPACED}]|\d+|[^\W\d_{_UNSPACED}]+(?:'[^\W\d_]+)?")
_LETTERS = str.maketrans("0123456789", "bcdfghjklm")
_SENTENCE_END = re.compile(r"[.!?:]+(?:\s|$)|\n")


@dataclass(frozen=True, slots=True)
class Reading:
    """One question. `quoted` and `code` are as they were written, in their order.

    `words` are the others in lower case, in their order, without polite frames and with the
    same things said in one way; `spelled` are those words and numbers as they were written.
    `capitals` are words in capitals that no sentence begins with.
    """

    quoted: tuple[str, ...]
    code: tuple[str, ...]
    spelled: tuple[str, ...]
    words: tuple[str, ...]
    capitals: tuple[str, ...]
    is_whole: bool = True


def read(text: str) -> Reading:
    """Take a question apart."""
    plain = _plain(text[:CHARS_MAX])
    quoted = tuple(_QUOTED.findall(plain))
    rest = _QUOTED.sub(" ", plain).translate(_APOSTROPHES)
    code, prose = _code_and_prose(rest)
    spelled = tuple(_WORD.findall(prose))
    return Reading(
        quoted=quoted,
        code=code,
        spelled=spelled,
        words=_said_one_way([word.casefold() for word in spelled]),
        capitals=_capitals(prose),
        is_whole=len(text) <= CHARS_MAX,
    )


def _plain(text: str) -> str:
    """The text in compatibility form, without what isn't seen."""
    composed = unicodedata.normalize("NFKC", text)
    return "".join(
        one for one in composed if unicodedata.category(one) not in ("Cf", "Cc") or one in "\n\t"
    )


def _code_and_prose(text: str) -> tuple[tuple[str, ...], str]:
    """What looks like code, piece by piece, and the rest with a word for each; a number stays."""
    code, prose = [], []
    for line in text.split("\n"):
        for piece in line.split():
            bare = _bare(piece)
            if _CODE.search(bare):
                code.append(bare)
                prose.append(piece if _NUMBER_SIGNS.match(bare) else _stand_in(bare))
            else:
                prose.append(piece)
        prose.append("\n")
    return tuple(code), " ".join(prose)


def _stand_in(piece: str) -> str:
    """A word in the place of a piece of code, so that where it stood is still known."""
    digits = str(zlib.crc32(piece.encode(errors="replace")))
    return "code" + digits.translate(_LETTERS)


def _bare(piece: str) -> str:
    """A piece without the marks of the sentence it stands in."""
    bare = piece.strip(_EDGES)
    if bare.startswith("(") and bare.endswith(")"):
        bare = bare[1:-1].strip(_EDGES)
    return bare


def _said_one_way(words: list[str]) -> tuple[str, ...]:
    """Contractions in full, polite frames left out, and phrases by what they stand for."""
    full: list[str] = []
    for word in words:
        full += CONTRACTIONS.get(word) or _parted(word)
    kept: list[str] = []
    at = 0
    while at < len(full):
        length, said = _phrase_at(full, at)
        kept += said
        at += length
    return tuple(kept)


def _parted(word: str) -> list[str]:
    """A word without an English ending that an apostrophe parts from it."""
    stem, apostrophe, ending = word.partition("'")
    if not apostrophe:
        return [word]
    if ending == "t" and stem.endswith("n"):
        return [stem[:-1], "not"]
    return [stem] if ending in ("s", "d", "ll", "re", "ve", "m") else [word]


def _phrase_at(words: list[str], at: int) -> tuple[int, tuple[str, ...]]:
    """The longest phrase that begins here, and what it stands for."""
    for length in range(min(_LONGEST, len(words) - at), 0, -1):
        if (said := _SAID.get(tuple(words[at : at + length]))) is not None:
            return length, said
    return 1, (words[at],)


_SAID = {**{frame: () for frame in FRAMES}, **PHRASES}
_LONGEST = max(len(phrase) for phrase in _SAID)


def _capitals(prose: str) -> tuple[str, ...]:
    found: list[str] = []
    for sentence in _SENTENCE_END.split(prose):
        for place, word in enumerate(_WORD.findall(sentence)):
            is_name = word[:1].isupper() and word not in ("I", "A")
            if is_name and (place > 0 or (len(word) > 1 and word.isupper())):
                found.append(word.partition("'")[0] if word.endswith("'s") else word)
    return tuple(found)

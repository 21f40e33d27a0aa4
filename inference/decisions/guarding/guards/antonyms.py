"""No word of one question may be the opposite of a word of the other."""

from collections.abc import Mapping

from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.reading import Reading
from inference.decisions.guarding.stems import stem

_OPPOSITES = """
on off | up down | in out | over under | above below | before after | with without | more less
| most least | more fewer | many few | much little | all none | all some | every some | any all
| everybody nobody | everything nothing | always never | first last | early late | earlier later
| inside outside | into out | toward from | yes no | true false | open close | start stop
| start end | begin end | enable disable | enabled disabled | activate deactivate
| increase decrease | raise lower | buy sell | accept reject | accept decline | allow forbid
| allow deny | allow block | lock unlock | send receive | import export | connect disconnect
| add remove | add subtract | install uninstall | encrypt decrypt | compress decompress
| push pull | upload download | show hide | attach detach | win lose | love hate | save delete
| save spend | borrow lend | give take | teach learn | question answer | cause effect
| maximum minimum | max min | high low | higher lower | highest lowest | big small
| large small | long short | longer shorter | old new | young old | best worst | better worse
| good bad | hot cold | warm cool | wet dry | full empty | left right | north south | east west
| public private | internal external | positive negative | legal illegal | safe dangerous
| cheap expensive | strong weak | heavy light | dark light | day night | male female | man woman
| husband wife | mother father | son daughter | brother sister | boy girl | king queen
| input output | read write | encode decode | pass fail | success failure | include exclude
| possible impossible | common rare | easy hard | fast slow | same different | ascending descending
| horizontal vertical | import export | lend borrow | rise fall | credit debit | profit loss
| gain lose | entrance exit | arrive depart | arrival departure | employer employee
| student teacher | parent child | singular plural | active passive | odd even | only also
"""

_BY_WORD: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split("|"):
    _one, _other = _pair.split()
    for _word, _opposite in ((_one, _other), (_other, _one)):
        _BY_WORD.setdefault(stem(_word), set()).add(stem(_opposite))
OPPOSITES: Mapping[str, frozenset[str]] = {
    word: frozenset(opposites) for word, opposites in _BY_WORD.items()
}


def doubt(one: Reading, other: Reading) -> Doubt | None:
    """A word that only one has, and its opposite that only the other has."""
    first, second = set(map(stem, one.words)), set(map(stem, other.words))
    mine, theirs = first - second, second - first
    for word in sorted(mine):
        if opposites := OPPOSITES.get(word, frozenset()) & theirs:
            return Doubt((word,), tuple(sorted(opposites)))
    return None

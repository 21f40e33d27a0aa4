"""Objects that keep their attributes in a row: what is relied on of CPython, and who does."""

import gc

import pytest

from inference.contract.shapes import MOST_NAMES, names_of, shaped
from inference.gateway.attempts import Attempt
from inference.gateway.exchange import Exchange
from inference.gateway.hot import HotDownstream
from inference.workers.answers import Answer

OTHERS = 100
# what few requests set
RARE = {
    *("is_out_of_retries", "tokens_not_generated", "assignments", "is_renewal"),
    *("is_paused", "_error", "_fault", "_is_interim"),
}


class Plain:
    late = 0

    def __init__(self) -> None:
        self.early = object()


def keeps_a_dict(one: object) -> bool:
    """Whether its attributes are in a `dict` of its own."""
    return any(type(held) is dict and "mark" in held.values() for held in gc.get_referents(one))


def after_others(cls: type, names: tuple[str, ...]) -> object:
    """An instance with these attributes, none of which so many others before it have set."""
    others = [object.__new__(cls) for _ in range(OTHERS)]
    one = object.__new__(cls)
    for name in names:
        setattr(one, name, "mark")
    assert len(others) == OTHERS
    return one


@pytest.mark.parametrize("cls", [HotDownstream, Exchange, Attempt, Answer])
def test_instances_keep_their_attributes_in_a_row(cls: type) -> None:
    names = names_of(cls)
    assert set(names[MOST_NAMES:]) <= RARE
    assert not keeps_a_dict(after_others(cls, names[:MOST_NAMES]))


def test_others_get_a_dict_by_what_they_set_late() -> None:
    assert keeps_a_dict(after_others(Plain, ("early", "late")))
    assert names_of(Plain) == ("early", "late")
    assert not keeps_a_dict(after_others(shaped(type("Shaped", (), dict(vars(Plain)))), ("late",)))

"""Values that are made in C: to everybody else they are frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from typing import Generic, TypeVar

import msgspec
import pytest

from inference.contract.values import changed, frozen, terse, told

T = TypeVar("T")


@frozen
class Pair(Generic[T]):
    one: T
    other: int = 2
    words: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)

    @property
    def total(self) -> int:
        return len(self.words) + self.other


def test_it_is_made_compared_and_shown_like_a_dataclass() -> None:
    pair = Pair("a", other=3, secret="hidden")
    assert (pair.one, pair.other, pair.words, pair.total) == ("a", 3, {}, 3)
    assert pair == Pair("a", 3, {}, "hidden")
    assert pair != Pair("b", 3, {}, "hidden")
    assert "hidden" not in repr(pair)
    assert Pair("a").words is not Pair("a").words


def test_it_cannot_be_changed_but_a_changed_one_can_be_made() -> None:
    pair = Pair("a")
    with pytest.raises(AttributeError):
        pair.other = 5  # type: ignore[misc]
    assert replace(pair, other=5) == changed(pair, other=5) == Pair("a", 5)
    assert pair.other == 2


def test_the_functions_of_dataclasses_take_it_for_one() -> None:
    assert is_dataclass(Pair)
    assert [one.name for one in fields(Pair)] == ["one", "other", "words", "secret"]
    assert asdict(Pair("a")) == {"one": "a", "other": 2, "words": {}, "secret": ""}


def test_it_is_encoded_and_read_by_its_names() -> None:
    encoded = msgspec.json.encode(Pair("a"))
    assert encoded == b'{"one":"a","other":2,"words":{},"secret":""}'
    assert msgspec.json.decode(encoded, type=Pair[str]) == Pair("a")


@terse
class Said:
    name: str
    kinds: tuple[str, ...] = ()
    most: int | None = None


def test_a_terse_one_is_told_without_what_has_its_default() -> None:
    assert told(Said("a")) == {"name": "a"}
    assert told(Said("a", kinds=("b",), most=0)) == {"name": "a", "kinds": ("b",), "most": 0}
    assert msgspec.json.encode(Said("a", most=None)) == b'{"name":"a"}'
    assert Said("a") == replace(Said("a", most=1), most=None)

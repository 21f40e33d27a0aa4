"""What every guard promises, asked of each."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import GuardKind
from inference.decisions.guarding.base import Guard
from inference.decisions.guarding.reading import read
from inference.decisions.guarding.registry import REGISTRY, refusing

each_guard: Callable[..., object] = pytest.mark.parametrize(
    "guard", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)

SCRAPS = (
    *("How do I ", "reset", " my ", "not", "don't", " 12", " 1,000", "-5", "three", " kg", "MB"),
    *("$", "Monday", "March 3", "Berlin", "berlin", '"to be"', "'us'", "`x = 1`", "a_b", "from "),
    *(
        "to ",
        "Wie ",
        "où",
        "что",
        "漢字",
        "؟",
        "\u200b",
        "e\u0301",
        "İ",
        "ß",
        "🙂",
        "\x00",
        "\ud800",
    ),
    *("?", "\n"),
)
texts = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(SCRAPS)).map(" ".join))


def test_every_kind_has_its_guard_and_they_are_asked_in_turn() -> None:
    assert set(REGISTRY) == set(GuardKind)
    assert refusing(read('Say "a" 1'), read('Say "b" 2')) is GuardKind.QUOTES
    assert refusing(read("Say it"), read("Say it")) is None


@each_guard
@given(texts)
def test_what_is_the_same_is_not_doubted(guard: Guard, text: str) -> None:
    assert guard(read(text), read(text)) is None


@each_guard
@given(texts, texts)
def test_it_is_all_one_which_comes_first(guard: Guard, one: str, other: str) -> None:
    first, second = read(one), read(other)
    assert (guard(first, second) is None) is (guard(second, first) is None)


@pytest.mark.parametrize(
    "scrap",
    ['"', "'a ", "“", "`", "1.", "((", "from to ", "a'", "not ", "漢", "1e1e", "a_", "É "],
)
def test_hostile_texts_take_no_longer_than_others(scrap: str) -> None:
    # what is beyond the bound isn't looked at
    one, other = read(scrap * 1_000_000), read("x" + scrap * 4096)
    for guard in REGISTRY.values():
        guard(one, other)
    assert not one.is_whole
    assert refusing(one, other) is not None

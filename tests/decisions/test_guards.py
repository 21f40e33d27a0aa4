"""Which guard refuses what, and what none refuses."""

import pytest

from benchmarks.semantic_pairs import SAME, Half, pairs
from inference.contract.kinds import GuardKind
from inference.decisions.guarding.base import Doubt
from inference.decisions.guarding.guards import antonyms, order, words
from inference.decisions.guarding.reading import read
from inference.decisions.guarding.registry import REGISTRY, refusing
from inference.decisions.guarding.stems import stem


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (GuardKind.QUOTES, 'What does "affect" mean?', 'What does "effect" mean?'),
        (GuardKind.QUOTES, "Spell 'US'", "Spell 'us'"),
        (GuardKind.CODE, "What does a[1:] do?", "What does a[:1] do?"),
        (GuardKind.CODE, "Explain git reset --hard", "Explain git reset --soft"),
        (GuardKind.CODE, "What is 17*23?", "What is 17*24?"),
        (GuardKind.NUMBERS, "Rice for three people", "Rice for four people"),
        (GuardKind.NUMBERS, "Read chapter II", "Read chapter III"),
        (GuardKind.NUMBERS, "10 minus 4", "4 minus 10"),
        (GuardKind.NEGATION, "How do I reset it?", "How do I not reset it?"),
        (GuardKind.NEGATION, "Is this allowed?", "Isn't this allowed?"),
        (GuardKind.NEGATION, "Wie geht das?", "Wie geht das nicht?"),
        (GuardKind.DATES, "Are you open on Monday?", "Are you open on Tuesday?"),
        (GuardKind.DATES, "What about last week?", "What about next week?"),
        (GuardKind.UNITS, "Is 5 kg a lot?", "Is 5 g a lot?"),
        (GuardKind.UNITS, "How long do 5 MB take?", "How long do 5 Mb take?"),
        (GuardKind.LANGUAGE, "What is Python?", "Was ist Python?"),
        (GuardKind.LANGUAGE, "Python", "Питон"),
        (GuardKind.PERSONS, "Why is my phone hot?", "Why is your phone hot?"),
        (GuardKind.PERSONS, "Does he owe her money?", "Does she owe him money?"),
        (GuardKind.QUESTIONS, "When is it?", "Where is it?"),
        (GuardKind.QUESTIONS, "Can I work here?", "Must I work here?"),
        (GuardKind.ANTONYMS, "Turn it on", "Turn it off"),
        (GuardKind.NAMES, "Trains to Berlin", "Trains to Munich"),
        (GuardKind.NAMES, "Did Brazil beat Germany?", "Did Germany beat Brazil?"),
        (GuardKind.WORDS, "flights to oslo", "flights to bergen"),
        (GuardKind.WORDS, "How do I sort a list?", "How do I sort a linked list?"),
        (GuardKind.ORDER, "Convert a list to a tuple", "Convert a tuple to a list"),
        (GuardKind.ORDER, "Why do cats chase mice?", "Why do mice chase cats?"),
    ],
)
def test_the_guard_that_it_is_for_refuses_it(kind: GuardKind, one: str, other: str) -> None:
    assert REGISTRY[kind](read(one), read(other)) is not None
    assert refusing(read(one), read(other)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my password?", "please tell me how to reset my password"),
        ("What's the capital of France?", "What is France's capital city?"),
        ("Explain how photosynthesis works.", "How does photosynthesis work?"),
        ("How do I buy tickets?", "How can I purchase a ticket?"),
        ("What happened in January?", "what happened in Jan"),
        ("Rice for 3 people", "Rice for three people"),
        ("On Android, how do I mute it?", "How do I mute it on Android?"),
        ("What does it cost in Rome?", "How much does it cost in rome?"),
        ("Don't I pay?", "Do I not pay?"),
        ("Why is it slow?", "What is the reason that it is slow?"),
        ("\uff21\uff22\uff23 \uff20 home", "ABC @ home"),
        ("café", "cafe\u0301"),
        ("Spell 'US' !", "Spell 'US'"),
    ],
)
def test_the_same_in_other_words_is_let_pass(one: str, other: str) -> None:
    assert refusing(read(one), read(other)) is None


def test_a_doubt_says_what_differs() -> None:
    one, other = read("How do I enable dark mode?"), read("How do I disable dark mode?")
    assert antonyms.doubt(one, other) == Doubt(("enabl",), ("disabl",))
    assert words.doubt(one, other) == Doubt(("enabl",), ("disabl",))
    one, other = read("from rome to bern"), read("from bern to rome")
    assert order.doubt(one, other) == Doubt(("from", "rome"), ("from", "bern"))


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("install", ("installs", "installed", "installing")),
        ("stop", ("stops", "stopped", "stopping")),
        ("city", ("cities",)),
        ("change", ("changes", "changed", "changing", "modify", "modified")),
        ("press", ("presses", "pressed", "pressing")),
        ("buy", ("buys", "buying", "bought", "purchase", "purchased")),
    ],
)
def test_inflections_have_one_stem(word: str, others: tuple[str, ...]) -> None:
    assert {stem(other) for other in others} == {stem(word)}


def test_words_that_only_look_alike_keep_their_own() -> None:
    apart = (
        "new news universal university rest resting legal illegal bus bust series serious".split()
    )
    distinct = {stem(word) for word in apart}
    assert len(distinct) == len(apart) - 1  # of which "resting" is one of "rest"


@pytest.mark.parametrize("half", list(Half))
def test_no_swap_passes_however_near_it_lies(half: Half) -> None:
    passed = [
        one
        for one in pairs(half)
        if not one.is_same and refusing(read(one.one), read(one.other)) is None
    ]
    assert passed == []


def test_half_of_those_that_ask_the_same_pass() -> None:
    same = [one for one in pairs(Half.HELD) if one.category == SAME]
    passed = [one for one in same if refusing(read(one.one), read(one.other)) is None]
    assert len(passed) > len(same) / 2

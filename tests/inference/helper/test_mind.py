"""What the helper finds and refuses; by a stand-in for the embedder that knows a few directions."""

import time

import numpy as np

from inference.helper.embedder import WIDTH, Vector
from inference.helper.messages import (
    THRESHOLD,
    TOO_LONG,
    Nearest,
    SemanticEntry,
    SemanticQuery,
)
from inference.helper.mind import SemanticMind
from inference.helper.semantic_index import SemanticIndex

MIB = 1024 * 1024


class Directions:
    """Texts point where their topic does: the part before a bar, the rest turns them a little."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, text: str) -> Vector | None:
        self.asked.append(text)
        return None if len(text) > 200 else self.embed_long(text)

    def embed_long(self, text: str) -> Vector | None:
        if not text:
            return None
        made = np.zeros(WIDTH, dtype=np.float32)
        made[len(text.split()[-1]) % 8] = 1.0
        made[100 + sum(map(ord, text)) % 200] = 0.1
        return made / np.float32(np.linalg.norm(made))


def minded() -> tuple[SemanticMind, Directions]:
    embedder = Directions()
    return SemanticMind(embedder, SemanticIndex(MIB)), embedder


def entry(text: str, key: bytes, partition: bytes = b"p") -> SemanticEntry:
    return SemanticEntry(partition, text, key, time.time() + 100)


def ask(
    mind: SemanticMind, text: str, partition: bytes = b"p", least: float = 0.9
) -> Nearest | None:
    return mind.nearest(SemanticQuery(partition, text, least))


def test_the_same_in_other_words_is_a_hit_and_a_digit_is_not() -> None:
    # cases: last-message matching and one-digit maths differences (C70)
    mind, _ = minded()
    mind.remember(entry("What is 17*23?", b"sum"))
    refused = ask(mind, "What is 17*24?")
    assert refused is not None
    assert (refused.key, refused.refused_by) == (None, "code")
    assert refused.similarity > 0.98
    found = ask(mind, "Please tell me what is 17*23?")
    assert found is not None
    assert (found.key, found.refused_by) == (b"sum", None)
    assert mind.gauge().hits_total == 1
    assert mind.gauge().refusals_total == {"code": 1}


def test_one_that_is_refused_does_not_hide_the_next() -> None:
    mind, _ = minded()
    mind.remember(entry("Is it not open on monday", b"other"))
    mind.remember(entry("Tell me: is it open on monday", b"right"))
    found = ask(mind, "is it open on monday")
    assert found is not None
    assert found.key == b"right"


def test_what_lies_below_the_threshold_is_told_and_not_served() -> None:
    mind, _ = minded()
    mind.remember(entry("How do I pay", b"pay"))
    far = ask(mind, "Where is Rome", least=0.9)
    assert far is not None
    assert (far.key, far.refused_by) == (None, THRESHOLD)
    assert ask(mind, "anything", partition=b"empty") is None


def test_what_is_too_long_is_neither_found_nor_kept() -> None:
    mind, _ = minded()
    long = "word " * 100
    mind.remember(entry(long, b"long"))
    assert len(mind.index) == 0
    assert ask(mind, long) == Nearest(None, 0.0, TOO_LONG)


def test_what_was_just_asked_for_is_not_embedded_again() -> None:
    mind, embedder = minded()
    ask(mind, "How do I pay")
    mind.remember(entry("How do I pay", b"pay"))
    assert embedder.asked == ["How do I pay"]
    mind.forget(b"pay")
    assert ask(mind, "How do I pay") is None


def test_answers_agree_if_they_are_near_and_state_the_same() -> None:
    mind, _ = minded()
    assert mind.agree("It costs 5 euros", "The price is 5 euros") is True
    assert mind.agree("It costs 5 euros", "It costs 7 euros") is False
    assert mind.agree("Yes, it is open", "No, it isn't open") is False
    assert mind.agree("It is open", "") is None
    assert mind.agree("1. first\n2. then open", "- first\n- then open") is True

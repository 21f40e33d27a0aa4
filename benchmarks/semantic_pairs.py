"""Pairs of questions that ask the same, and pairs that nearly do and don't, from a fixed seed.

    .venv/bin/python -m benchmarks.semantic_pairs [--half seen|held]

Guards were written by the half `seen`; figures come from the half `held`, whose templates and
fillings are others. A pair of equal texts is left out: the exact tiers have those.
"""

import argparse
import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product
from pathlib import Path
from typing import TypeVar

SEED = 20261201
EACH = 300
"""No more pairs than so of each category and half."""


class Half(StrEnum):
    SEEN = "seen"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions; whether an answer to one answers the other."""

    category: str
    one: str
    other: str
    is_same: bool


SAME = "paraphrase"
TEXTS = tomllib.loads(Path(__file__).with_name("semantic_texts.toml").read_text())
T = TypeVar("T")

# What surrounds a whole question without changing what is asked.
_FRAMES = ("{x}", "Hello! {x}", "{x} Thanks.", "Quick question: {x}", "{x} Any help is welcome.")


def pairs(half: Half, each: int = EACH) -> list[Pair]:
    """All pairs of one half, the same every time, in a fixed order."""
    chance = random.Random(f"{SEED} {half}")
    made: dict[str, list[Pair]] = {SAME: list(_paraphrases(half))}
    for swap in _swaps(half):
        made.setdefault(swap.category, []).append(swap)
    chosen = []
    for category, found in made.items():
        unique = list(dict.fromkeys(one for one in found if one.one != one.other))
        chance.shuffle(unique)
        chosen += unique[: each * 2 if category == SAME else each]
    return chosen


def _half_of(rows: Sequence[T], half: Half) -> Sequence[T]:
    return rows[0 if half is Half.SEEN else 1 :: 2]


def _paraphrases(half: Half) -> Iterator[Pair]:
    for kind, *row in _half_of(TEXTS["same"], half):
        for filling in _half_of(TEXTS["fillings"][kind], half):
            for one, other in combinations(row, 2):
                yield Pair(SAME, one.format(x=filling), other.format(x=filling), True)


def _swaps(half: Half) -> Iterator[Pair]:
    for category, groups in TEXTS["swaps"].items():
        for group in groups:
            rows, fillings = (_half_of(group[name], half) for name in ("rows", "fillings"))
            for row, (one, other) in product(rows, fillings):
                # in the same words, and in others
                for first, second in product(row, repeat=2):
                    yield from _framed(category, first.format(x=one), second.format(x=other))
    for category, wholes in TEXTS["whole"].items():
        for one, other in _half_of(wholes, half):
            yield from _framed(category, one, other)


def _framed(category: str, one: str, other: str) -> Iterator[Pair]:
    for first, second in product(_FRAMES, repeat=2):
        yield Pair(category, first.format(x=one), second.format(x=other), False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", type=Half, default=Half.SEEN, choices=list(Half))
    for pair in pairs(parser.parse_args().half):
        print(pair.category, pair.is_same, pair.one, pair.other, sep="\t")


if __name__ == "__main__":
    main()

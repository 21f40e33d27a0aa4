"""What guards make of near questions: `python -m benchmarks.semantic_guards [--half held|seen]`.

Over the pairs of `semantic_pairs`, at the usual threshold and at lower ones: how many of those that
ask the same are hits (recall), how many hits ask the same (precision), and how many swaps of each
kind were hits, with the guards and by similarity alone. The half `held` shares neither templates
nor fillings with what the guards were written by.
"""

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.semantic_pairs import Half, Pair, pairs
from controlplane.local.semantic_model import find_semantic_model
from inference.contract.kinds import GuardKind
from inference.decisions.guarding.reading import read
from inference.decisions.guarding.registry import refusing
from inference.helper.embedder import Embedder

THRESHOLDS = (0.92, 0.85, 0.8)


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair, how near it is and which guard refuses it."""

    pair: Pair
    similarity: float
    refused_by: GuardKind | None


def judge(embedder: Embedder, half: Half) -> list[Judged]:
    """Every pair of a half with its similarity and its refusal."""
    return [
        Judged(one, _similarity(embedder, one), refusing(read(one.one), read(one.other)))
        for one in pairs(half)
    ]


def _similarity(embedder: Embedder, pair: Pair) -> float:
    one, other = embedder.embed(pair.one), embedder.embed(pair.other)
    return 0.0 if one is None or other is None else float(one @ other)


def report(judged: Sequence[Judged], threshold: float) -> str:
    """One table row for each way of deciding, and where the false hits lie."""
    lines = []
    for name, has_guards in (("similarity alone", False), ("with guards", True)):
        hits = [
            one
            for one in judged
            if one.similarity >= threshold and not (has_guards and one.refused_by)
        ]
        right = sum(one.pair.is_same for one in hits)
        same = sum(one.pair.is_same for one in judged)
        false = Counter(one.pair.category for one in hits if not one.pair.is_same)
        precision = f"{right / len(hits):.3f}" if hits else "-"
        lines.append(
            f"| {threshold} | {name} | {right / same:.3f} | {precision} | {sum(false.values())} "
            f"of {len(judged) - same} | {', '.join(f'{k} {n}' for k, n in sorted(false.items()))} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", type=Half, default=Half.HELD, choices=list(Half))
    parser.add_argument("--list", action="store_true", help="what is decided wrongly")
    arguments = parser.parse_args()
    judged = judge(Embedder(find_semantic_model(os.environ)), arguments.half)
    if arguments.list:
        for one in judged:
            if one.pair.is_same == (one.refused_by is not None):
                pair = one.pair
                print(pair.category, one.refused_by, f"{one.similarity:.3f}", pair.one, pair.other)
    for threshold in THRESHOLDS:
        print(report(judged, threshold))


if __name__ == "__main__":
    main()

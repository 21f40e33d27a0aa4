"""The semantic index at full size, on one thread.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python -m benchmarks.semantic_index [--entries 100000]

2,000 distinct questions made of the texts of `semantic_pairs`, and for the rest of the entries each
of them turned a little by chance (cosine 0.9 to 0.99), since embedding 100,000 takes minutes; in
one partition, asked for in other words. Recall@1 is the share of questions of which the index finds
first what is nearest by comparing with all (or as near to a thousandth, as vectors are kept in 16
bits). Then a tenth is removed and added again, and it is asked once more.
"""

import argparse
import os
import random
import time
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from benchmarks.semantic_pairs import SEED, TEXTS
from controlplane.local.semantic_model import fetch_semantic_model
from inference.helper.embedder import WIDTH, Embedder
from inference.helper.semantic_index import SemanticIndex

PLACES = (
    "|in Berlin|in Oslo|at work|at home|for my mother|for a team of 20|before Monday|on Android"
    "|after the move|on Windows|without an account|in the morning|for students|for a friend"
    "|by phone|with a voucher|this year|next week|from abroad|under 50 euros|with children"
    "|as a beginner|by law|if it rains|when travelling|on a Sunday|in a hurry|for two people"
    "|over 65|in winter|during a strike|with a dog|without a card|at night|near the sea"
    "|in a small town|after a crash|for free|as a gift"
).split("|")
QUERIES = 1000
TEXTS_EMBEDDED = 2000
TOLERANCE = 0.001
MIB = 1024 * 1024
FOR_EVER = 10.0**10

Vectors = npt.NDArray[np.float32]


def questions(half: int) -> Iterator[str]:
    """Distinct questions, in every second of each row's ways to ask."""
    things = sorted({one for many in TEXTS["fillings"].values() for one in many})
    ways = [way for _, *row in TEXTS["same"] for way in row[half::2]]
    for place, thing, way in product(PLACES, things, ways):
        yield f"{way.format(x=thing).rstrip('?.')} {place}".rstrip() + "?"


def drawn(half: int, count: int) -> list[str]:
    """So many of them, the same every time."""
    found = list(dict.fromkeys(questions(half)))
    random.Random(SEED).shuffle(found)
    return found[:count]


def embedded(texts: Sequence[str]) -> Vectors:
    """The vectors of texts."""
    embedder = Embedder(fetch_semantic_model(os.environ, print))
    made = [embedder.embed(text) for text in texts]
    return np.stack([np.zeros(WIDTH, np.float32) if one is None else one for one in made])


def turned(vectors: Vectors, count: int) -> Vectors:
    """So many vectors: these, and then each of them turned by chance."""
    chance = np.random.default_rng(SEED)
    rows = [vectors]
    while sum(map(len, rows)) < count:
        away = chance.normal(size=vectors.shape).astype(np.float32)
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        cosine = chance.uniform(0.9, 0.99, size=(len(vectors), 1)).astype(np.float32)
        made = cosine * vectors + np.sqrt(1 - cosine**2) * away
        rows.append(made / np.linalg.norm(made, axis=1, keepdims=True))
    return np.concatenate(rows)[:count]


def ask(index: SemanticIndex, entries: Vectors, asked: Vectors) -> str:
    """Recall and times of all questions."""
    took, right = [], 0
    for vector in asked:
        began = time.perf_counter()
        found = index.nearest(b"p", vector, 8)
        took.append((time.perf_counter() - began) * 1000)
        right += found[0].similarity >= float((entries @ vector).max()) - TOLERANCE
    p50, p99 = np.percentile(took, [50, 99])
    return f"recall@1 {right / len(asked):.4f}, query p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def put(index: SemanticIndex, entries: Vectors, numbers: Sequence[int]) -> str:
    """The times of adding these."""
    took = []
    for number in numbers:
        began = time.perf_counter()
        index.put(b"p", number.to_bytes(4, "big"), "text", entries[number], FOR_EVER)
        took.append((time.perf_counter() - began) * 1000)
    p50, p99 = np.percentile(took, [50, 99])
    return f"put p50 {p50:.2f} ms, p99 {p99:.2f} ms, {sum(took) / 1000:.0f} s in all"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    arguments = parser.parse_args()
    entries = turned(embedded(drawn(0, TEXTS_EMBEDDED)), arguments.entries)
    asked = embedded(drawn(1, QUERIES))
    index = SemanticIndex(1024 * MIB)
    print(f"{len(entries)} entries: {put(index, entries, range(len(entries)))}")
    print(f"{index.bytes / MIB:.0f} MiB by its own count; {ask(index, entries, asked)}")
    changed = range(0, len(entries), 10)
    for number in changed:
        index.remove(number.to_bytes(4, "big"))
    print(f"a tenth again: {put(index, entries, changed)}")
    print(ask(index, entries, asked))


if __name__ == "__main__":
    main()

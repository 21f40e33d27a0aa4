"""Which eviction saves most, and whether memory keeps its bound.

    .venv/bin/python -m benchmarks.cache_replay --trace AzureLLMInferenceTrace_conv.csv [--skew 0.9]
    .venv/bin/python -m benchmarks.cache_replay --churn

The trace is one of the public ones of Azure (TIMESTAMP, ContextTokens, GeneratedTokens): it says
how long prompts and answers are, and not which are alike. So each of its rows is one prompt, and
requests ask for prompts with a Zipf popularity of the skew that is stated (the n-th most popular is
asked for as 1/n^skew), as many as the trace has rows times `--rounds`. After each round a part of
them (`--drift`) change places in popularity. All caches have equal bytes.
"""

import argparse
import csv
import gc
import random
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from pathlib import Path

from inference.caches.base import Entry
from inference.caches.gdsf import OVERHEAD_BYTES, Gdsf
from inference.contract.events import PriceUsed, Usage
from inference.contract.kinds import Endpoint
from inference.decisions.cost import cost_of

PRICE = PriceUsed("prc", 300_000_000, 900_000_000)
"""$0.30 and $0.90 a million tokens."""
BYTES_PER_TOKEN = 5
SHARES = (0.01, 0.05, 0.2)
"""The bytes of a cache, as parts of what all answers take."""


@dataclass(frozen=True)
class Prompt:
    """One prompt: what its answer takes in memory, and what it costs to make it."""

    key: bytes
    size: int
    nanousd: int
    entry: Entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--skew", type=float, default=0.9)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--drift", type=float, default=0.0)
    parser.add_argument("--churn", action="store_true")
    arguments = parser.parse_args()
    if arguments.churn:
        churn()
    if arguments.trace is not None:
        replay(arguments.trace, arguments.skew, arguments.rounds, arguments.drift)


def replay(trace: Path, skew: float, rounds: int, drift: float) -> None:
    """Show hits and dollars saved of each cache, by its size."""
    prompts = read_prompts(trace)
    requests = draws(prompts, skew, rounds, drift)
    whole = sum(prompt.size for prompt in prompts)
    spent = sum(prompt.nanousd for prompt in requests)
    print(f"{len(prompts):,} prompts, {len(requests):,} requests, ${spent / 1e9:,.2f}")
    print(f"Zipf {skew}, drift {drift}")
    print(f"{'bytes':>12} {'':6} {'hits':>7} {'dollars saved':>14} {'of all':>7}")
    for share in SHARES:
        size = int(whole * share)
        for name, run in EVICTIONS.items():
            hits, saved = run(requests, size)
            told = f"{hits / len(requests):7.1%} {saved / 1e9:14,.2f} {saved / spent:7.1%}"
            print(f"{size:12,} {name:6} {told}")
    size = int(whole * SHARES[0])
    told = tiers(requests, size, int(whole * SHARES[2]))
    print(f"local {size:,} bytes over a store of {SHARES[2]:.0%}:")
    for name, (hits, saved) in told.items():
        print(f"{'':12} {name:6} {hits / len(requests):7.1%} {saved / 1e9:14,.2f}")


def read_prompts(trace: Path) -> list[Prompt]:
    """The rows of a trace."""
    with trace.open() as lines:
        rows = [
            (int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(lines)
        ]
    return [_prompt(number, *row) for number, row in enumerate(rows)]


def _prompt(number: int, prompt_tokens: int, completion_tokens: int) -> Prompt:
    usage = Usage(prompt_tokens, completion_tokens)
    cost = cost_of(usage, PRICE) or 0
    body = bytes(400 + completion_tokens * BYTES_PER_TOKEN)
    entry = Entry(
        body, Endpoint.CHAT, 0.0, 1e12, 1e12, "ce", "cch", "rt", usage, 1.0, cost_nanousd=cost
    )
    return Prompt(number.to_bytes(32, "big"), len(body) + OVERHEAD_BYTES, cost, entry)


def draws(prompts: Sequence[Prompt], skew: float, rounds: int, drift: float) -> list[Prompt]:
    """Requests by popularity; who is popular has nothing to do with size or cost.

    After each round so many of them, as a part of all, change places with each other.
    """
    chance = random.Random(7)
    order = list(prompts)
    chance.shuffle(order)
    weights = list(accumulate(1 / (place**skew) for place in range(1, len(order) + 1)))
    drawn: list[Prompt] = []
    for _ in range(rounds):
        drawn += chance.choices(order, cum_weights=weights, k=len(order))
        places = chance.sample(range(len(order)), int(len(order) * drift))
        for one, other in zip(places[::2], places[1::2], strict=False):
            order[one], order[other] = order[other], order[one]
    return drawn


def gdsf(requests: Sequence[Prompt], size: int) -> tuple[int, int]:
    """This gateway's."""
    kept, hits, saved = Gdsf(size), 0, 0
    for one in requests:
        if kept.get(one.key) is not None:
            hits, saved = hits + 1, saved + one.nanousd
        else:
            kept.put(one.key, one.entry)
    return hits, saved


def lru(requests: Sequence[Prompt], size: int) -> tuple[int, int]:
    """Whoever was asked for longest ago goes."""
    kept: OrderedDict[bytes, Prompt] = OrderedDict()
    hits = saved = held = 0
    for one in requests:
        if one.key in kept:
            kept.move_to_end(one.key)
            hits, saved = hits + 1, saved + one.nanousd
        elif one.size <= size:
            while held + one.size > size:
                held -= kept.popitem(last=False)[1].size
            kept[one.key] = one
            held += one.size
    return hits, saved


def lfu(requests: Sequence[Prompt], size: int) -> tuple[int, int]:
    """Whoever was asked for least goes; of several the one that came first."""
    kept: dict[bytes, Prompt] = {}
    counts: dict[bytes, int] = {}
    heap: list[tuple[int, int, bytes]] = []
    hits = saved = held = 0
    for number, one in enumerate(requests):
        counts[one.key] = counts.get(one.key, 0) + 1
        if one.key in kept:
            hits, saved = hits + 1, saved + one.nanousd
        elif one.size <= size:
            while held + one.size > size:
                count, since, key = heappop(heap)
                if counts[key] > count:
                    heappush(heap, (counts[key], since, key))
                else:
                    held -= kept.pop(key).size
                    counts[key] = 0
            kept[one.key] = one
            held += one.size
            heappush(heap, (counts[one.key], number, one.key))
    return hits, saved


def tiers(
    requests: Sequence[Prompt], local_bytes: int, store_bytes: int
) -> dict[str, tuple[int, int]]:
    """What each of two tiers saves, the local one asked first; the store goes by use (LFU)."""
    local, told = Gdsf(local_bytes), {"local": (0, 0), "shared": (0, 0)}
    missed: list[Prompt] = []
    for one in requests:
        if local.get(one.key) is not None:
            hits, saved = told["local"]
            told["local"] = (hits + 1, saved + one.nanousd)
        else:
            local.put(one.key, one.entry)
            missed.append(one)
    told["shared"] = lfu(missed, store_bytes)
    return told


def churn(size: int = 64 * 1024 * 1024) -> None:
    """Fill memory ten times over, and show what it takes."""
    chance = random.Random(7)
    tracemalloc.start()
    kept, put, number, most = Gdsf(size), 0, 0, 0
    while put < 10 * size:
        body = chance.randbytes(chance.randrange(200, 8_000))
        prompt = _prompt(0, 100, 10).entry
        entry = Entry(
            body, prompt.endpoint, 0.0, 1e12, 1e12, f"ce_{number:024x}", "cch", "rt",
            Usage(number % 4_000, 7), 1.0, cost_nanousd=number,
        )  # fmt: skip
        kept.put(number.to_bytes(32, "big"), entry)
        kept.get(chance.randrange(number + 1).to_bytes(32, "big"))
        put, number, most = put + len(body), number + 1, max(most, kept.bytes)
    gc.collect()
    real, _ = tracemalloc.get_traced_memory()
    print(f"{number:,} entries put, {put / 2**20:,.0f} MiB through {size / 2**20:,.0f} MiB")
    print(f"counted at most {most / 2**20:.1f} MiB, held {real / 2**20:.1f} MiB for {len(kept):,}")
    bodies = sum(len(node.entry.body) for node in kept._nodes.values())
    print(f"{(real - bodies) / max(len(kept), 1):.0f} bytes an entry beside its body")


EVICTIONS: dict[str, Callable[[Sequence[Prompt], int], tuple[int, int]]] = {
    "GDSF": gdsf,
    "LRU": lru,
    "LFU": lfu,
}

if __name__ == "__main__":
    main()

"""Which worker has lately read which beginnings of prompts, so probably has them cached.

A prompt is cut in steps; a block's digest covers everything up to its end, so equal digests are
equal beginnings. Only digests are kept, never text.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from xxhash import xxh3_64_intdigest

STEP_BYTES = 2_048

# 256 KiB, some 64,000 tokens: what lies beyond is told apart from what lies before well enough.
MAX_BLOCKS = 128

# Some 15 MB: every block of 200 MB of prompts, or of more where they begin alike.
MAX_ENTRIES = 100_000

# Engines drop what nobody asked for; what is older than this was hardly kept.
MAX_AGE_S = 600.0


def blocks_of(prompt: bytes | memoryview) -> tuple[int, ...]:
    """The digests of a prompt's beginnings, one a whole step; none if it is shorter than one.

    That of a step is the seed of the next one's, so each covers all that comes before it.
    """
    view = memoryview(prompt)
    end = min(len(view), MAX_BLOCKS * STEP_BYTES) - STEP_BYTES
    digest = 0
    return tuple(
        [
            digest := xxh3_64_intdigest(view[start : start + STEP_BYTES], digest)
            for start in range(0, end + 1, STEP_BYTES)
        ]
    )


def salt_of(life: str) -> int:
    """A number for one life of a worker, mixed into what it was sent: another life has none."""
    return xxh3_64_intdigest(life.encode())


class Salted(Protocol):
    """A worker whose life has a number."""

    @property
    def id(self) -> str: ...

    @property
    def salt(self) -> int: ...


class PrefixIndex:
    """Remembers blocks by worker, bounded by count and age. Times are seconds of one clock."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._seen: OrderedDict[int, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def hit(self, salt: int, blocks: tuple[int, ...], *, now_s: float) -> float:
        """The share of a prompt's blocks that this worker has had, from the first one on."""
        oldest_s = now_s - MAX_AGE_S
        known = 0
        for block in blocks:
            at_s = self._seen.get(block ^ salt)
            if at_s is None or at_s < oldest_s:
                break
            known += 1
        return known / len(blocks) if blocks else 0.0

    def hits(
        self, workers: Iterable[Salted], blocks: tuple[int, ...], *, now_s: float
    ) -> dict[str, float]:
        """The same of each of these workers by id; those that have had nothing are left out."""
        seen, first, last = self._seen, blocks[0], blocks[-1]
        oldest_s = now_s - MAX_AGE_S
        found = {}
        for worker in workers:
            salt = worker.salt
            if first ^ salt not in seen:
                continue
            # who has read it to its end has had all of it: what is forgotten goes from the front
            if seen.get(last ^ salt, oldest_s) > oldest_s:
                found[worker.id] = 1.0
            elif hit := self.hit(salt, blocks, now_s=now_s):
                found[worker.id] = hit
        return found

    def remember(self, salt: int, blocks: tuple[int, ...], *, now_s: float) -> None:
        """Note that this worker has read a prompt with these blocks."""
        seen = self._seen
        to_end = seen.move_to_end
        for block in blocks:
            key = block ^ salt
            seen[key] = now_s
            to_end(key)
        oldest_s = now_s - MAX_AGE_S
        while seen and (len(seen) > self._max_entries or seen[next(iter(seen))] < oldest_s):
            seen.popitem(last=False)

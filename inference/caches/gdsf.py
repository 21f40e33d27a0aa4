"""Entries in memory within a hard number of bytes; what saves least for its size goes first.

Greedy-Dual-Size-Frequency (Cherkasova 1998): an entry's priority is the clock plus how often it was
asked for, times what a hit saves, over its size. The clock is the priority of what went last, so
that what was popular once goes in time. A hit is counted in constant time: the heap learns of it
when the entry comes to its top. Each policy has a share of the memory, which it can't pass.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from inference.caches.base import Entry
from inference.contract.kinds import CacheTier
from inference.contract.vitals import TOP_ENTRIES_TOLD, TopEntry

OVERHEAD_BYTES = 1_200
"""Of an entry beside its body: key, values, its place in table and heap. 820 were measured."""

_NANOUSD_PER_TOKEN = 1_000
"""What a token is taken to be worth where it has no price: a dollar a million."""
_SLACK = 64


class _Node:
    """An entry and how it does."""

    __slots__ = ("entry", "hits", "is_gone", "key", "priority", "saved_nanousd", "size", "worth")

    def __init__(self, key: bytes, entry: Entry, size: int) -> None:
        self.key = key
        self.entry = entry
        self.size = size
        self.worth = worth_of(entry)
        self.hits = 0
        self.saved_nanousd: int | None = 0
        self.priority = 0.0
        self.is_gone = False


class _Shelf:
    """The entries of one policy. The heap has each once, under a priority it had, or has."""

    __slots__ = ("bytes", "entries", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, _Node]] = []
        self.bytes = 0
        self.entries = 0


class Gdsf:
    """A bounded table of entries. `evictions` counts those that went for want of room."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self.evictions = 0
        self._clock = 0.0
        self._numbers = count()
        self._nodes: dict[bytes, _Node] = {}
        self._shelves: dict[str, _Shelf] = {}
        self._top: dict[bytes, _Node] = {}
        self._top_least = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, key: bytes) -> Entry | None:
        """The entry under a key; this counts as a hit."""
        node = self._nodes.get(key)
        if node is None:
            return None
        node.hits += 1
        node.priority = self._clock + (node.hits + 1) * node.worth / node.size
        if node.saved_nanousd is not None:
            cost = node.entry.cost_nanousd
            node.saved_nanousd = None if cost is None else node.saved_nanousd + cost
        if node.hits > self._top_least:
            self._note_top(node)
        return node.entry

    def put(self, key: bytes, entry: Entry, *, share_percent: int = 100) -> bool:
        """Keep an entry in place of what is under its key; False if it is larger than its share."""
        size = len(entry.body) + OVERHEAD_BYTES
        most = self.most_bytes * share_percent // 100
        self.drop(key)
        if size > most:
            return False
        shelf = self._shelves.get(entry.policy_id)
        if shelf is None:
            shelf = self._shelves[entry.policy_id] = _Shelf()
        while shelf.bytes + size > most:
            self._evict(shelf)
        while self.bytes + size > self.most_bytes:
            self._evict(self._next_shelf())
        node = _Node(key, entry, size)
        node.priority = self._clock + node.worth / size
        self._nodes[key] = node
        heappush(shelf.heap, (node.priority, next(self._numbers), node))
        shelf.entries += 1
        shelf.bytes += size
        self.bytes += size
        return True

    def drop(self, key: bytes) -> None:
        """Let an entry go, if it is there."""
        node = self._nodes.get(key)
        if node is not None:
            self._remove(node)

    def stale_keys(self, now_s: float) -> Iterator[bytes]:
        """The keys of entries whose time is over for good."""
        nodes = list(self._nodes.values())
        return (node.key for node in nodes if node.entry.stale_until <= now_s)

    def top_entries(self, tier: CacheTier) -> list[TopEntry]:
        """Those that were asked for most, at most TOP_ENTRIES_TOLD of them."""
        return [
            TopEntry(
                entry_id=node.entry.entry_id,
                policy_id=node.entry.policy_id,
                route_id=node.entry.route_id,
                tier=tier,
                hits=node.hits,
                bytes=node.size,
                stored_at=node.entry.stored_at,
                saved_nanousd=node.saved_nanousd,
            )
            for node in self._top.values()
        ]

    def _next_shelf(self) -> _Shelf:
        """The one that has what goes first; there is one that isn't empty."""
        return min(
            (shelf for shelf in self._shelves.values() if shelf.heap),
            key=lambda shelf: shelf.heap[0][0],
        )

    def _evict(self, shelf: _Shelf) -> None:
        """Take a step towards room: drop the first of a heap, or put it where it belongs by now."""
        priority, _, node = heappop(shelf.heap)
        if node.is_gone:
            return
        if node.priority > priority:
            heappush(shelf.heap, (node.priority, next(self._numbers), node))
            return
        self._clock = max(self._clock, priority)
        self.evictions += 1
        self._remove(node)

    def _remove(self, node: _Node) -> None:
        node.is_gone = True
        del self._nodes[node.key]
        self._top.pop(node.key, None)
        if len(self._top) < TOP_ENTRIES_TOLD:
            self._top_least = 0
        policy_id = node.entry.policy_id
        shelf = self._shelves[policy_id]
        shelf.entries -= 1
        shelf.bytes -= node.size
        self.bytes -= node.size
        if len(shelf.heap) > 2 * shelf.entries + _SLACK:
            shelf.heap = [one for one in shelf.heap if not one[2].is_gone]
            heapify(shelf.heap)

    def _note_top(self, node: _Node) -> None:
        """Have the entry among those that are told, in place of the least of them."""
        self._top[node.key] = node
        if len(self._top) > TOP_ENTRIES_TOLD:
            least = min(self._top.values(), key=lambda one: one.hits)
            del self._top[least.key]
        if len(self._top) == TOP_ENTRIES_TOLD:
            self._top_least = min(one.hits for one in self._top.values())


def worth_of(entry: Entry) -> int:
    """What a hit on an entry saves, in nano-USD; tokens without a price are worth something too."""
    if entry.cost_nanousd:
        return entry.cost_nanousd + 1
    usage = entry.usage
    tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
    return tokens * _NANOUSD_PER_TOKEN + 1

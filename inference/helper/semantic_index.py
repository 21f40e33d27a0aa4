"""Messages by their vectors: the nearest ones of one partition, within a bound of bytes.

Partitions are apart, so a search sees no other's entries, however near they are. A partition's
newest entries are compared one by one; what is beyond these is in a graph (HNSW), one entry moved a
put, so that nothing ever takes long.
"""

import heapq
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnxruntime  # noqa: F401 (it crashes if it is loaded after usearch's library)
from usearch.index import Index

from inference.helper.embedder import WIDTH, Vector

FLAT_MAX = 4096
"""So many entries of a partition are compared one by one, which takes a millisecond."""

_CONNECTIVITY = 16
_EXPANSION_ADD = 128
_EXPANSION_SEARCH = 512
# Measured: what an entry takes in these tables, a partition without its vectors, and a vector in
# the graph.
_ENTRY_BYTES = 700
_PARTITION_BYTES = 700
_NODE_BYTES = 1700
_EXPIRED_AT_ONCE = 256


@dataclass(slots=True)
class Entry:
    """One message, and until when its answer may be served, epoch seconds."""

    key: bytes
    partition: bytes
    text: str
    expires_at: float
    label: int

    @property
    def bytes(self) -> int:
        """About what it takes in memory, but for its vector."""
        return _ENTRY_BYTES + len(self.text.encode(errors="replace")) + len(self.key)


@dataclass(frozen=True, slots=True)
class Near:
    """An entry, and the cosine of its angle to what was asked for."""

    similarity: float
    entry: Entry


class SemanticIndex:
    """At most `bytes_max` of entries by key; the longest unused go first. One thread's."""

    def __init__(self, bytes_max: int, *, clock: Callable[[], float] = time.time) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.evictions_total = 0
        self._clock = clock
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._partitions: dict[bytes, _Partition] = {}
        self._by_label: dict[int, Entry] = {}
        self._expiries: list[tuple[float, int]] = []
        self._labels = itertools.count(1)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self._partitions)

    def put(
        self, partition: bytes, key: bytes, text: str, vector: Vector, expires_at: float
    ) -> None:
        """Have a message found; one that is there under the key is replaced."""
        self.remove(key)
        entry = Entry(key, partition, text, expires_at, next(self._labels))
        if expires_at <= self._clock() or entry.bytes > self.bytes_max:
            return
        self._entries[key] = self._by_label[entry.label] = entry
        self.bytes += entry.bytes
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = _Partition()
        else:
            self.bytes -= found.bytes
        found.add(entry.label, vector)
        self.bytes += found.bytes
        heapq.heappush(self._expiries, (expires_at, entry.label))
        while self.bytes > self.bytes_max:
            self.remove(next(iter(self._entries)))
            self.evictions_total += 1
        self._tidy()

    def remove(self, key: bytes) -> None:
        """Have the message of a key found no more."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        del self._by_label[entry.label]
        partition = self._partitions[entry.partition]
        self.bytes -= entry.bytes + partition.bytes
        partition.remove(entry.label)
        if len(partition):
            self.bytes += partition.bytes
        else:
            del self._partitions[entry.partition]

    def nearest(self, partition: bytes, vector: Vector, count: int) -> list[Near]:
        """The nearest entries of a partition, the nearest first, none of them expired."""
        self.expire()
        if (found := self._partitions.get(partition)) is None:
            return []
        now = self._clock()
        near = [
            Near(similarity, entry)
            for similarity, label in found.nearest(vector, count)
            if (entry := self._by_label[label]).expires_at > now
        ]
        return sorted(near, key=lambda one: -one.similarity)[:count]

    def use(self, entry: Entry) -> None:
        """Note that an entry was of use."""
        self._entries.move_to_end(entry.key)

    def expire(self) -> None:
        """Remove what has expired, so many at once that nobody waits for it."""
        now = self._clock()
        for _ in range(_EXPIRED_AT_ONCE):
            if not self._expiries or self._expiries[0][0] > now:
                return
            _, label = heapq.heappop(self._expiries)
            if (entry := self._by_label.get(label)) is not None:
                self.remove(entry.key)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def _tidy(self) -> None:
        """Forget the expiries of what is gone, once they are the most."""
        if len(self._expiries) > 2 * len(self._entries) + 1000:
            self._expiries = [(one.expires_at, one.label) for one in self._entries.values()]
            heapq.heapify(self._expiries)


class _Partition:
    """The entries of one partition, by label: the newest in rows, the others in a graph.

    There is room for a quarter more rows than are taken, and after removals for as many again: most
    partitions have one entry or two.
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[int, int] = OrderedDict()  # label -> row, the oldest first
        self._labels: list[int] = []  # row -> label
        self._matrix: npt.NDArray[np.float32] = np.empty((1, WIDTH), dtype=np.float32)
        self._graph: Index | None = None
        self._nodes = 0  # the most that the graph ever had: it lets go of no room

    def __len__(self) -> int:
        return len(self._labels) + (len(self._graph) if self._graph is not None else 0)

    @property
    def bytes(self) -> int:
        """About what it has taken of memory."""
        return _PARTITION_BYTES + self._matrix.nbytes + _NODE_BYTES * self._nodes

    def add(self, label: int, vector: Vector) -> None:
        if len(self._labels) >= FLAT_MAX:
            self._move_oldest()
        row = len(self._labels)
        if row == len(self._matrix):
            self._resize(row + 1)
        self._matrix[row] = vector
        self._labels.append(label)
        self._rows[label] = row

    def remove(self, label: int) -> None:
        if label in self._rows:
            self._remove_row(label)
        elif self._graph is not None:
            self._graph.remove(label)
            if not len(self._graph):
                self._graph, self._nodes = None, 0

    def nearest(self, vector: Vector, count: int) -> Iterator[tuple[float, int]]:
        """The nearest of the rows and the nearest of the graph, in no order."""
        rows = len(self._labels)
        similarities = self._matrix[:rows] @ vector
        best = np.argpartition(-similarities, count)[:count] if rows > count else range(rows)
        yield from ((float(similarities[row]), self._labels[row]) for row in best)
        if self._graph is not None:
            matches = self._graph.search(vector, count, threads=1)
            yield from (
                (1.0 - float(distance), int(label))
                for label, distance in zip(matches.keys, matches.distances, strict=True)
            )

    def _move_oldest(self) -> None:
        label, row = next(iter(self._rows.items()))
        if self._graph is None:
            self._graph = Index(
                ndim=WIDTH,
                metric="ip",
                dtype="f16",
                connectivity=_CONNECTIVITY,
                expansion_add=_EXPANSION_ADD,
                expansion_search=_EXPANSION_SEARCH,
            )
        self._graph.add(label, self._matrix[row], threads=1)
        self._nodes = max(self._nodes, len(self._graph))
        self._remove_row(label)

    def _remove_row(self, label: int) -> None:
        """Put the last row in the place of one."""
        row = self._rows.pop(label)
        last = self._labels.pop()
        if last != label:
            self._matrix[row] = self._matrix[len(self._labels)]
            self._labels[row] = last
            self._rows[last] = row  # keeps its place in time
        if len(self._matrix) > 2 * (len(self._labels) + 1):
            self._resize(len(self._labels))

    def _resize(self, rows: int) -> None:
        """Have room for so many rows and a quarter more."""
        matrix = np.empty((max(rows + rows // 4, 1), WIDTH), dtype=np.float32)
        kept = len(self._labels)
        matrix[:kept] = self._matrix[:kept]
        self._matrix = matrix

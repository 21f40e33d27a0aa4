"""Start-time fair queueing: those who share something get equal parts of the work, not of turns.

A queue is a tree. At each level the child is next whose share of the work so far is least; below
the last level it is first come, first served. Who had nothing waiting for a while doesn't save up.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by the path of whom they belong to, such as (organisation, team, key).

    All paths have the same length, and items can be told apart by hash. Adding and removing cost
    the length of the path, taking also the number of those at each level who wait.
    """

    __slots__ = ("_children", "_finished", "_items", "_now", "size")

    def __init__(self) -> None:
        self.size = 0
        self._items: OrderedDict[T, float] = OrderedDict()
        self._children: dict[str, FairQueue[T]] = {}
        self._now = 0.0
        self._finished: dict[str, float] = {}

    def add(self, path: Sequence[str], item: T, work: float) -> None:
        """Put an item behind all others of its path."""
        self.size += 1
        if not path:
            self._items[item] = work
            return
        child = self._children.get(path[0])
        if child is None:
            child = self._children[path[0]] = FairQueue()
        child.add(path[1:], item, work)

    def remove(self, path: Sequence[str], item: T) -> None:
        """Take an item out that doesn't wait any more; it must be there."""
        self.size -= 1
        if not path:
            del self._items[item]
            return
        child = self._children[path[0]]
        child.remove(path[1:], item)
        if not child.size:
            self._drop(path[0])

    def take(self, fits: Callable[[T], bool]) -> T | None:
        """Take the next item that fits; None if none does."""
        taken = self._take(fits)
        return None if taken is None else taken[0]

    def _take(self, fits: Callable[[T], bool]) -> tuple[T, float] | None:
        """The item and its work."""
        found = self._take_own(fits) if self._items else self._take_below(fits)
        if found is not None:
            self.size -= 1
        return found

    def _take_own(self, fits: Callable[[T], bool]) -> tuple[T, float] | None:
        for item, work in self._items.items():
            if fits(item):
                del self._items[item]
                return item, work
        return None

    def _take_below(self, fits: Callable[[T], bool]) -> tuple[T, float] | None:
        for name in self._order():
            child = self._children[name]
            found = child._take(fits)
            if found is not None:
                start = self._start(name)
                self._now = max(self._now, start)
                self._finished[name] = start + found[1]
                if not child.size:
                    self._drop(name)
                return found
        return None

    def _order(self) -> list[str]:
        """The children by when their next work would have begun; of equals the one longest here."""
        if len(self._children) == 1:
            return list(self._children)
        return sorted(self._children, key=self._start)

    def _start(self, name: str) -> float:
        return max(self._now, self._finished.get(name, 0.0))

    def _drop(self, name: str) -> None:
        """Forget a child without items, and who has no more than the others have had by now."""
        del self._children[name]
        if len(self._finished) > 2 * len(self._children) + 16:
            self._finished = {
                one: finished for one, finished in self._finished.items() if finished > self._now
            }

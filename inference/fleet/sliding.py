"""Counts of the last seconds: cheap to add to, exact to the second."""


class SlidingCounts:
    """How often something happened in a window of whole seconds, and how often in a marked way.

    Times are seconds of one clock that doesn't go back.
    """

    __slots__ = ("_all", "_marked", "_second", "_seconds", "_slot", "marked", "total")

    def __init__(self, window_s: int) -> None:
        self._seconds = window_s
        self._second = 0
        self._slot = 0
        self._all = [0] * window_s
        self._marked = [0] * window_s
        self.total = 0
        self.marked = 0

    def add(self, now_s: float, count: int = 1, marked: int = 0) -> None:
        """Count so many, and so many that are marked; `total` and `marked` are up to date then."""
        if now_s >= self._second + 1:
            self.advance(now_s)
        self._all[self._slot] += count
        self.total += count
        if marked:
            self._marked[self._slot] += marked
            self.marked += marked

    def take_back(self, at_s: float, *, count: int = 1, marked: int = 0) -> None:
        """Undo what was counted at that time, unless it has dropped out since."""
        if self._second - int(at_s) >= self._seconds:
            return
        slot = int(at_s) % self._seconds
        self._all[slot] -= count
        self._marked[slot] -= marked
        self.total -= count
        self.marked -= marked

    def advance(self, now_s: float) -> None:
        """Drop what is too old by now."""
        second = int(now_s)
        if second <= self._second:
            return
        passed = min(second - self._second, self._seconds)
        for past in range(second - passed + 1, second + 1):
            slot = past % self._seconds
            self.total -= self._all[slot]
            self.marked -= self._marked[slot]
            self._all[slot] = self._marked[slot] = 0
        self._second = second
        self._slot = second % self._seconds

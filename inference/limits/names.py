"""How many names that callers write are counted apart: only so many, the others together.

A counter of an end user lies in the state store until its window is over, so a caller that sends
a new name with each request would fill the store, and nothing could be written to it.
"""

from collections.abc import Callable
from itertools import islice

from inference.contract.snapshot import LimitRecord
from inference.decisions.admission import WINDOW_MS

MOST_END_USERS = 20_000
"""Of one key, for one limit, in one window; each is some 300 bytes in the store and 60 here."""

MOST_TIMES = 20
"""So many times as many at each process, or one with many keys would fill its memory."""

# A counter without a window is forgotten by the store after so long.
_NO_WINDOW_S = 3_600.0

# So many of those that are over are looked for each time one more is made, or can't be.
_SWEPT = 16


class Names:
    """The end users that have counters of their own, for each limit by key, until its window ends.

    A window begins here with the first of its names, so what is counted apart in one of the store's
    is twice `most` at most, at each process, and `MOST_TIMES` as many over all keys and limits.
    `stopwatch` gives seconds.
    """

    def __init__(self, *, stopwatch: Callable[[], float], most: int = MOST_END_USERS) -> None:
        self._stopwatch = stopwatch
        self._most = most
        self._most_together = MOST_TIMES * most
        self._count = 0
        self._names: dict[tuple[str, str], tuple[float, set[int]]] = {}

    def __len__(self) -> int:
        return self._count

    def is_apart(self, limit: LimitRecord, key_id: str, name: str) -> bool:
        """Whether a name is counted by itself; if not, it shares a counter with its key's others.

        Once it is, it stays so for the window.
        """
        now_s = self._stopwatch()
        place = limit.id, key_id
        known = self._names.get(place)
        if known is None or known[0] <= now_s:
            self._forget(place)
            self._sweep(now_s)
            ends_s = now_s + (WINDOW_MS[limit.window] / 1000 or _NO_WINDOW_S)
            known = self._names[place] = (ends_s, set())
        names, mark = known[1], hash(name)
        if mark not in names:
            if len(names) >= self._most or not self._has_room(now_s):
                return False
            names.add(mark)
            self._count += 1
        return True

    def _has_room(self, now_s: float) -> bool:
        """Whether one more may be counted apart, whosever it is."""
        if self._count >= self._most_together:
            self._sweep(now_s)
        return self._count < self._most_together

    def _sweep(self, now_s: float) -> None:
        """Forget some of those whose window is over; the others go to the end of the line."""
        for place, known in list(islice(self._names.items(), _SWEPT)):
            if known[0] > now_s:
                self._names[place] = self._names.pop(place)
            else:
                self._forget(place)

    def _forget(self, place: tuple[str, str]) -> None:
        known = self._names.pop(place, None)
        if known is not None:
            self._count -= len(known[1])

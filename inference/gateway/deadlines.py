"""The time limits of a process's requests: one timer for all that have equally long ones."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Protocol


class Limited(Protocol):
    """Who has a time limit."""

    due_s: float | None

    def overrun(self) -> None:
        """Learn that its time is over."""


class Deadlines:
    """Calls `overrun` of whoever is still here once its time is over.

    Requests of a route come and go in their thousands a second and all but none meets its limit, so
    each costs an entry in a queue in place of a timer. One that others have overtaken, for its body
    took long, has a timer of its own. Times are those of a `stopwatch`.
    """

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self._overtaken: dict[Limited, asyncio.TimerHandle] = {}

    def add(
        self, limited: Limited, due_s: float, limit_ms: int, stopwatch: Callable[[], float]
    ) -> None:
        """Have its limit, which is so long, end at `due_s`."""
        limited.due_s = due_s
        queue = self._queues.get(limit_ms)
        if queue is None:
            queue = self._queues[limit_ms] = _Queue(stopwatch, lambda: self._drop(limit_ms))
        if due_s < queue.last_s and queue.members:
            self._wind(limited, due_s, stopwatch)
            return
        queue.members[limited] = None
        queue.last_s = due_s
        if due_s < queue.rings_s:
            queue.wind(due_s)

    def remove(self, limited: Limited, limit_ms: int) -> None:
        """Let it have no limit any more."""
        limited.due_s = None
        queue = self._queues.get(limit_ms)
        if queue is not None:
            queue.members.pop(limited, None)
        if self._overtaken and (timer := self._overtaken.pop(limited, None)) is not None:
            timer.cancel()

    def _wind(self, limited: Limited, due_s: float, stopwatch: Callable[[], float]) -> None:
        """Give it a timer of its own, which rings then."""
        wait_s = max(due_s - stopwatch(), 0.0)
        loop = asyncio.get_running_loop()
        self._overtaken[limited] = loop.call_later(wait_s, self._ring, limited, due_s, stopwatch)

    def _ring(self, limited: Limited, due_s: float, stopwatch: Callable[[], float]) -> None:
        if due_s > stopwatch():
            self._wind(limited, due_s, stopwatch)
            return
        del self._overtaken[limited]
        limited.overrun()

    def _drop(self, limit_ms: int) -> None:
        del self._queues[limit_ms]


class _Queue:
    """Limits of one length, by when they end. `emptied` is called when it is of no use any more."""

    __slots__ = ("_emptied", "_loop", "_stopwatch", "_timer", "last_s", "members", "rings_s")

    def __init__(self, stopwatch: Callable[[], float], emptied: Callable[[], None]) -> None:
        self.members: dict[Limited, None] = {}
        self.last_s = 0.0
        self.rings_s = inf
        self._stopwatch = stopwatch
        self._emptied = emptied
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def wind(self, due_s: float) -> None:
        """Look again then."""
        if self._timer is not None:
            self._timer.cancel()
        self.rings_s = due_s
        self._timer = self._loop.call_later(max(due_s - self._stopwatch(), 0.0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        while self.members:
            first = next(iter(self.members))
            due_s = first.due_s or 0.0
            if due_s > self._stopwatch():
                self.wind(due_s)
                return
            del self.members[first]
            first.overrun()
        self._emptied()

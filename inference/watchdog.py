"""A connection's one timer: set anew for every request without the loop being told each time."""

import asyncio
from collections.abc import Callable

# The timer rings this often at least, so that whatever is set for later than that needs no timer
# of its own. What a client may take for a head, by which it is set most often, is as long.
_LONGEST_S = 30.0


class Watchdog:
    """Calls what it was set to once its time is over; setting it anew replaces both."""

    __slots__ = ("_act", "_due_s", "_loop", "_rings_s", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0
        self._due_s = 0.0
        self._act: Callable[[], None] | None = None

    def set(self, delay_s: float, act: Callable[[], None]) -> None:
        """Have this called after so many seconds, in place of what was to be called."""
        now_s = self._loop.time()
        self._act, self._due_s = act, now_s + delay_s
        if self._timer is None or self._rings_s > self._due_s:
            self._wind(now_s)

    def clear(self) -> None:
        """Have nothing called."""
        self._act = None

    def close(self) -> None:
        """Have nothing called, and keep nothing of the loop."""
        self._act = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_s = min(self._due_s, now_s + _LONGEST_S)
        self._timer = self._loop.call_at(self._rings_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._act is None:
            return
        now_s = self._loop.time()
        if self._due_s > now_s:
            self._wind(now_s)
            return
        act, self._act = self._act, None
        act()

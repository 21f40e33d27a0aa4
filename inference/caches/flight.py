"""One request of several alike is answered, the others wait for it: within this process.

Whoever comes first leads. If its answer can be kept, those who wait get it; if it fails or leaves,
the next of them leads in its place; if its answer is one that isn't kept, each goes its own way.
"""

import asyncio
from collections import deque
from enum import Enum

from inference.caches.base import Entry


class Turn(Enum):
    """What becomes of a request that waited and got no answer."""

    LEAD = 1
    ALONE = 2


Landing = Entry | Turn


class Ticket:
    """A request that waits. Whoever holds it looks at `landing`, and leaves if it can't wait."""

    __slots__ = ("_flights", "_key", "landing")

    def __init__(self, flights: "Flights", key: bytes) -> None:
        self._flights = flights
        self._key = key
        self.landing: asyncio.Future[Landing] = asyncio.get_running_loop().create_future()

    def leave(self) -> None:
        """Wait no longer; if it was to lead by now, the next one is."""
        if not self.landing.done():
            self.landing.cancel()
        elif not self.landing.cancelled() and self.landing.result() is Turn.LEAD:
            self._flights.pass_on(self._key)


class Flights:
    """The keys for which an answer is being made, and who waits for each."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[Ticket]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def board(self, key: bytes) -> Ticket | None:
        """A ticket to wait with; None if there is nobody to wait for: then it leads."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            return None
        ticket = Ticket(self, key)
        waiting.append(ticket)
        return ticket

    def land(self, key: bytes, landing: Entry | None) -> None:
        """End a flight whose answer was made: all have it, or it is none that others may have."""
        for ticket in self._waiting.pop(key, ()):
            if not ticket.landing.done():
                ticket.landing.set_result(Turn.ALONE if landing is None else landing)

    def pass_on(self, key: bytes) -> None:
        """Have the next one lead, since there was no answer; with nobody left it is over."""
        waiting = self._waiting.get(key)
        while waiting:
            ticket = waiting.popleft()
            if not ticket.landing.done():
                ticket.landing.set_result(Turn.LEAD)
                return
        self._waiting.pop(key, None)

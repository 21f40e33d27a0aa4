"""Those who wait for one pool, in the order in which they are let in."""

from collections import OrderedDict
from collections.abc import Callable

from inference.contract.kinds import PriorityClass
from inference.decisions.queueing import (
    Drain,
    drain_begun,
    drain_ended,
    drain_left,
    is_more_urgent,
    is_promoted,
)
from inference.queues.fair import FairQueue
from inference.queues.tickets import Ticket


class Line:
    """One pool's queue: by class, inside a class by equal shares of the work, and by age at times.

    `drain` is how fast it has been left for workers of late.
    """

    __slots__ = ("_classes", "_served", "_waiting", "drain")

    def __init__(self, drain: Drain) -> None:
        self.drain = drain
        self._classes: dict[PriorityClass, FairQueue[Ticket]] = {
            one: FairQueue() for one in PriorityClass
        }
        self._waiting: OrderedDict[Ticket, None] = OrderedDict()
        self._served = 0

    @property
    def size(self) -> int:
        return len(self._waiting)

    @property
    def since_s(self) -> float | None:
        """Since when the first of them waits."""
        oldest = next(iter(self._waiting), None)
        return None if oldest is None else oldest.since_s

    def ahead_of(self, priority: PriorityClass) -> int:
        """How many go before the next one of this class."""
        return sum(
            queue.size for one, queue in self._classes.items() if not is_more_urgent(priority, one)
        )

    def add(self, ticket: Ticket, now_s: float) -> None:
        """Put one in."""
        if not self._waiting:
            self.drain = drain_begun(self.drain, now_s)
        self._waiting[ticket] = None
        self._classes[ticket.priority].add(ticket.path, ticket, ticket.work)

    def remove(self, ticket: Ticket, now_s: float) -> None:
        """Take one out that goes elsewhere or waits no more."""
        del self._waiting[ticket]
        self._classes[ticket.priority].remove(ticket.path, ticket)
        self._note_empty(now_s)

    def take(self, fits: Callable[[Ticket], bool], now_s: float) -> Ticket | None:
        """Take the one whose turn it is among those that fit."""
        ticket = self._promoted(fits, now_s) or self._next(fits)
        if ticket is not None:
            del self._waiting[ticket]
            self._served += 1
            self.drain = drain_left(self.drain, now_s)
            self._note_empty(now_s)
        return ticket

    def _promoted(self, fits: Callable[[Ticket], bool], now_s: float) -> Ticket | None:
        for ticket in self._waiting:
            if not is_promoted(waited_s=now_s - ticket.since_s, served=self._served):
                return None
            if fits(ticket):
                self._classes[ticket.priority].remove(ticket.path, ticket)
                return ticket
        return None

    def _next(self, fits: Callable[[Ticket], bool]) -> Ticket | None:
        for queue in self._classes.values():
            if queue.size and (ticket := queue.take(fits)) is not None:
                return ticket
        return None

    def _note_empty(self, now_s: float) -> None:
        if not self._waiting:
            self.drain = drain_ended(self.drain, now_s)

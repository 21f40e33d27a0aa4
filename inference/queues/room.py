"""The waiting room of a process: who is let in, who is sent away, and who goes next.

One line a pool; a request waits in those of all pools it could go to and leaves all of them when
one has room. Nothing here asks for time by itself: events bring seats, and while anybody waits a
tick looks for those that came by the passing of time.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import RouteRecord
from inference.decisions.queueing import URGENCY, Drain, is_more_urgent, retry_after_s
from inference.errors import NoCapacity, QueueFull, QueueTimeout
from inference.observability.queue_metrics import QueueMetrics, Shed
from inference.queues.lines import Line
from inference.queues.tickets import Seat, Ticket

MAX_HELD_BYTES = 256 * 1024 * 1024
"""Bodies of those who wait, together: a process has to live with that and with what it relays.

Each route may have an equal part of it, whatever the others hold; what is left over is anybody's.
"""

TICK_S = 0.2
"""How late a seat may be found that no event told of: a breaker whose time is over, a worker that
had asked to be left alone."""

# Pools whose queues were seen to move are forgotten beyond so many.
_MANY = 1_000

# So many in a row that would not go to a free seat are asked at most: each answer costs a choice.
_MOST_ASKED = 64

_LEAST_URGENT_FIRST = sorted(PriorityClass, key=URGENCY.__getitem__, reverse=True)


class Seats(Protocol):
    """The workers as the waiting room asks for them."""

    def seats(self, pool_id: str, now_s: float) -> Sequence[Seat]:
        """Those of a pool that may be sent to now, full or not."""

    def is_wanted(self, pool_id: str) -> bool:
        """Whether the configuration has the pool run."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What a caller that waits is told: `comment`, each time `left_s` has run out."""

    left_s: Callable[[], float]
    comment: Callable[[], Awaitable[None]]


class WaitingRoom:
    """All requests of a process that wait for a worker. `stopwatch` is the seats' clock.

    `crowded` is called when the first of a pool begins to wait.
    """

    def __init__(
        self,
        seats: Seats,
        *,
        metrics: QueueMetrics,
        stopwatch: Callable[[], float],
        crowded: Callable[[], None] | None = None,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self.held_bytes = 0
        self._seats = seats
        self._metrics = metrics
        self._stopwatch = stopwatch
        self._crowded = crowded
        self._max_held_bytes = max_held_bytes
        self._lines: dict[str, Line] = {}
        self._drains: dict[str, Drain] = {}
        self._routes: dict[str, OrderedDict[Ticket, None]] = {}
        self._held: Counter[str] = Counter()
        self._shares: dict[tuple[str, PriorityClass], Counter[tuple[str, ...]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._routes.values()))

    def depths(self) -> dict[str, int]:
        """How many wait by pool; one that could go to several counts at its first choice."""
        counts: dict[str, int] = {}
        for tickets in self._routes.values():
            for ticket in tickets:
                counts[ticket.pools[0]] = counts.get(ticket.pools[0], 0) + 1
        return counts

    def oldest_waits_ms(self) -> dict[str, float]:
        """How long the first in each line has waited, in milliseconds, by pool."""
        now_s = self._stopwatch()
        return {
            pool_id: round((now_s - since_s) * 1000, 1)
            for pool_id, line in self._lines.items()
            if (since_s := line.since_s) is not None
        }

    def queued(self, pool_ids: Iterable[str]) -> int:
        """How many wait for any of these pools."""
        wanted = set(pool_ids)
        return sum(
            not wanted.isdisjoint(ticket.pools)
            for tickets in self._routes.values()
            for ticket in tickets
        )

    async def wait(self, ticket: Ticket, *, wait_s: float, silence: Silence | None = None) -> None:
        """Return once a worker has room for it; whoever asks must take it without waiting.

        Raises QueueFull, QueueTimeout after `wait_s`, NoCapacity if its pools are to run no more,
        or its refusal as soon as there is one.
        """
        if wait_s <= 0:
            raise self._refused(QueueFull, Shed.FULL, ticket.route, ticket.priority, ticket.pools)
        self._make_place(ticket)
        began_s = self._stopwatch()
        self._enter(ticket, began_s)
        seat: Seat | None = None
        try:
            await self._until_turn(ticket, wait_s, silence)
            seat = ticket.turn.result()
        finally:
            self._metrics.waited(ticket.priority, self._stopwatch() - began_s)
            self._end_wait(ticket, is_taken=seat is not None)

    def serve(self, pool_id: str) -> None:
        """Give the seats that are free at a pool to those who wait for it, in their order."""
        line = self._lines.get(pool_id)
        if line is None:
            return
        now_s = self._stopwatch()
        for seat in self._seats.seats(pool_id, now_s):
            while not seat.is_full:
                ticket = line.take(_fitting(seat.id), now_s)
                if ticket is None:
                    break
                self._leave(ticket, now_s, taken_by=line)
                seat.promised += 1
                ticket.turn.set_result(seat)

    def serve_all(self) -> None:
        """The same at all pools, once those who are refused by now or wait in vain were told."""
        for tickets in list(self._routes.values()):
            for ticket in list(tickets):
                refusal = ticket.refusal()
                if refusal is None and not any(map(self._seats.is_wanted, ticket.pools)):
                    refusal = NoCapacity()
                if refusal is not None:
                    self._send_away(ticket, refusal)
        for pool_id in list(self._lines):
            self.serve(pool_id)

    def shed(
        self, route: RouteRecord, priority: PriorityClass, pools: Sequence[str], why: Shed
    ) -> int:
        """Count a request that is sent away; in how many seconds it would have had its turn."""
        self._metrics.shed(route.id, priority, why)
        return self._retry_after(priority, pools)

    async def _until_turn(self, ticket: Ticket, wait_s: float, silence: Silence | None) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + wait_s
        while not ticket.turn.done():
            left_s = due_s - loop.time()
            if left_s <= 0:
                raise self._refused(
                    QueueTimeout, Shed.TIMEOUT, ticket.route, ticket.priority, ticket.pools
                )
            if silence is not None:
                left_s = min(left_s, silence.left_s())
            await asyncio.wait((ticket.turn,), timeout=left_s)
            if silence is not None and not ticket.turn.done() and not silence.left_s():
                await silence.comment()

    def _end_wait(self, ticket: Ticket, *, is_taken: bool) -> None:
        """Let go of whatever it holds: its places, or the seat it was promised."""
        turn = ticket.turn
        if not turn.done():
            self._leave(ticket, self._stopwatch())
            turn.cancel()
        elif not turn.cancelled() and turn.exception() is None:
            seat = turn.result()
            seat.promised -= 1
            if not is_taken:
                self.serve(seat.pool_id)

    def _make_place(self, ticket: Ticket) -> None:
        """Send others away who are less entitled, if there is no place else, or raise QueueFull."""
        leaving = self._displaced_by(ticket)
        if leaving is None:
            raise self._refused(QueueFull, Shed.FULL, ticket.route, ticket.priority, ticket.pools)
        for one in leaving:
            self._send_away(
                one,
                self._refused(QueueFull, Shed.DISPLACED, one.route, one.priority, one.pools),
            )

    def _displaced_by(self, ticket: Ticket) -> list[Ticket] | None:
        """Who has to go for it, None if that is not enough.

        Where its route has too many, those of the route that are less entitled. Where there are too
        many bytes, one after another of the route that holds the most: so no route keeps another
        from holding as much as itself, and one that would hold most with it finds place only among
        its own.
        """
        route_id, held = ticket.route.id, self._held.copy()
        surplus = len(self._routes.get(route_id, ())) + 1 - ticket.route.max_queued
        surplus_bytes = self.held_bytes + ticket.held_bytes - self._max_held_bytes
        if surplus <= 0 and surplus_bytes <= 0:
            return []
        held[route_id] += ticket.held_bytes
        leaving: list[Ticket] = []
        going = {route_id: self._less_entitled(ticket)}
        while surplus > 0 or surplus_bytes > 0:
            most = route_id if surplus > 0 else max(held, key=held.__getitem__)
            if held[most] == held[route_id]:
                most = route_id
            if most not in going:
                going[most] = self._least_urgent(most)
            one = next(going[most], None)
            if one is None:
                return None
            leaving.append(one)
            held[most] -= one.held_bytes
            surplus -= most == route_id
            surplus_bytes -= one.held_bytes
        return leaving

    def _less_entitled(self, ticket: Ticket) -> Iterator[Ticket]:
        """Those of its route that would go for it, in the order in which they would.

        The least urgent first, of a class the newest of whoever has most there, so that one
        caller's crowd keeps nobody out; in its own class only if that is more than a turn.
        """
        route_id = ticket.route.id
        for priority in _LEAST_URGENT_FIRST:
            if is_more_urgent(ticket.priority, priority):
                yield from self._newest(route_id, priority)
        shares = self._shares.get((route_id, ticket.priority))
        if shares and max(shares.values()) >= shares[ticket.path] + 2:
            yield next(self._newest(route_id, ticket.priority))

    def _least_urgent(self, route_id: str) -> Iterator[Ticket]:
        """All of a route that holds too much, in the order in which they would go."""
        for priority in _LEAST_URGENT_FIRST:
            yield from self._newest(route_id, priority)

    def _newest(self, route_id: str, priority: PriorityClass) -> Iterator[Ticket]:
        """Those of a route and class, first of all the newest of whoever has most there."""
        shares = self._shares.get((route_id, priority))
        if not shares:
            return
        most = max(shares, key=shares.__getitem__)
        of_class = [one for one in reversed(self._routes[route_id]) if one.priority is priority]
        first = next(one for one in of_class if one.path == most)
        yield first
        yield from (one for one in of_class if one is not first)

    def _enter(self, ticket: Ticket, now_s: float) -> None:
        self.held_bytes += ticket.held_bytes
        self._held[ticket.route.id] += ticket.held_bytes
        self._routes.setdefault(ticket.route.id, OrderedDict())[ticket] = None
        self._shares.setdefault((ticket.route.id, ticket.priority), Counter())[ticket.path] += 1
        is_first = False
        for pool_id in ticket.pools:
            line = self._lines.get(pool_id)
            if line is None:
                is_first = True
                line = self._lines[pool_id] = Line(self._drains.get(pool_id, Drain()))
            line.add(ticket, now_s)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        if is_first and self._crowded is not None:
            self._crowded()

    def _leave(self, ticket: Ticket, now_s: float, *, taken_by: Line | None = None) -> None:
        self.held_bytes -= ticket.held_bytes
        self._held[ticket.route.id] -= ticket.held_bytes
        tickets = self._routes[ticket.route.id]
        del tickets[ticket]
        if not tickets:
            del self._routes[ticket.route.id], self._held[ticket.route.id]
        self._drop_share(ticket)
        for pool_id in ticket.pools:
            line = self._lines[pool_id]
            if line is not taken_by:
                line.remove(ticket, now_s)
            if not line.size:
                del self._lines[pool_id]
                self._remember(pool_id, line.drain)

    def _drop_share(self, ticket: Ticket) -> None:
        key = (ticket.route.id, ticket.priority)
        shares = self._shares[key]
        shares[ticket.path] -= 1
        if not shares[ticket.path]:
            del shares[ticket.path]
            if not shares:
                del self._shares[key]

    def _remember(self, pool_id: str, drain: Drain) -> None:
        if len(self._drains) > _MANY:
            self._drains.clear()
        self._drains[pool_id] = drain

    def _send_away(self, ticket: Ticket, error: Exception) -> None:
        self._leave(ticket, self._stopwatch())
        ticket.turn.set_exception(error)

    def _refused(
        self,
        kind: type[QueueFull] | type[QueueTimeout],
        why: Shed,
        route: RouteRecord,
        priority: PriorityClass,
        pools: Sequence[str],
    ) -> QueueFull | QueueTimeout:
        return kind(retry_after_s=self.shed(route, priority, pools, why))

    def _retry_after(self, priority: PriorityClass, pools: Sequence[str]) -> int:
        now_s = self._stopwatch()
        lines = [line for pool_id in pools if (line := self._lines.get(pool_id)) is not None]
        drains = [
            line.drain if (line := self._lines.get(one)) is not None else self._drains[one]
            for one in pools
            if one in self._lines or one in self._drains
        ]
        ahead = max((line.ahead_of(priority) for line in lines), default=0)
        since_s = min([one for line in lines if (one := line.since_s) is not None], default=now_s)
        return retry_after_s(drains, ahead=ahead, oldest_s=now_s - since_s, now=now_s)

    def _tick(self) -> None:
        self._timer = None
        self.serve_all()
        if self._lines:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)


def _fitting(seat_id: str) -> Callable[[Ticket], bool]:
    """Whether one would go to this seat, asked of so many at most."""
    asked = 0

    def fits(ticket: Ticket) -> bool:
        nonlocal asked
        asked += 1
        return asked <= _MOST_ASKED and ticket.fits(seat_id)

    return fits

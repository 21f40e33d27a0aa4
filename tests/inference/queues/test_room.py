"""Who is let in, sent away, and served next, over seats that a test frees."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import RouteRecord
from inference.errors import GatewayError, NoCapacity, QueueFull, QueueTimeout
from inference.observability.queue_metrics import QueueMetrics
from inference.queues.room import Silence, WaitingRoom
from inference.queues.tickets import Ticket
from tests.inference.clocks import HandClock

INTERACTIVE, DEFAULT, BATCH = PriorityClass
ROUTE = RouteRecord("rt_m", "org_a", "m", ())


@dataclass
class Seat:
    """A worker for one request at a time."""

    id: str
    pool_id: str = "p"
    busy: int = 1
    promised: int = 0

    @property
    def is_full(self) -> bool:
        return self.busy + self.promised >= 1


@dataclass
class Hall:
    """A waiting room before some seats, and all who ever asked for one."""

    seated: list[Seat] = field(default_factory=lambda: [Seat("w0")])
    unwanted: set[str] = field(default_factory=set)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: HandClock = field(default_factory=lambda: HandClock(0.0))
    served: list[str] = field(default_factory=list)
    tasks: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    room: WaitingRoom = field(init=False)
    crowded: int = 0

    def __post_init__(self) -> None:
        self.room = WaitingRoom(
            self,
            metrics=QueueMetrics(self.registry),
            stopwatch=self.clock,
            crowded=self.note_crowd,
            max_held_bytes=1_000,
        )

    def note_crowd(self) -> None:
        self.crowded += 1

    def seats(self, pool_id: str, now_s: float) -> Sequence[Seat]:
        return [one for one in self.seated if one.pool_id == pool_id]

    def is_wanted(self, pool_id: str) -> bool:
        return pool_id not in self.unwanted

    async def ask(
        self,
        name: str,
        priority: PriorityClass = DEFAULT,
        *,
        route: RouteRecord = ROUTE,
        tenant: str = "team",
        pools: tuple[str, ...] = ("p",),
        wait_s: float = 30.0,
        held_bytes: int = 1,
        only: str = "",
        silence: Silence | None = None,
    ) -> None:
        """Begin to wait; whoever gets a seat keeps it."""
        ticket = Ticket(
            route=route,
            priority=priority,
            path=("org", tenant),
            work=10.0,
            pools=pools,
            held_bytes=held_bytes,
            fits=lambda seat_id: only in ("", seat_id),
            since_s=self.clock(),
            turn=asyncio.get_running_loop().create_future(),
        )

        async def wait() -> None:
            await self.room.wait(ticket, wait_s=wait_s, silence=silence)
            seat = next(one for one in self.seated if not one.is_full and ticket.fits(one.id))
            seat.busy += 1
            self.served.append(name)

        task = self.tasks[name] = asyncio.create_task(wait())
        # some refusals are told apart by counts alone: nobody asks for their errors
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0)

    async def free(self, seat: int = 0) -> None:
        """One request ends at a seat, and whoever is next gets there."""
        self.seated[seat].busy -= 1
        self.room.serve(self.seated[seat].pool_id)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    def refused(self, name: str) -> GatewayError:
        error = self.tasks[name].exception()
        assert isinstance(error, GatewayError)
        return error

    def shed(self, priority: PriorityClass, reason: str) -> float:
        labels = {"route": "rt_m", "class": priority.value, "reason": reason}
        return self.registry.get_sample_value("headworks_gateway_shed_total", labels) or 0.0

    def assert_empty(self) -> None:
        assert (self.room.waiting, self.room.depths(), self.room.held_bytes) == (0, {}, 0)
        assert self.room.oldest_waits_ms() == {}
        assert [one.promised for one in self.seated] == [0] * len(self.seated)


@pytest.fixture
async def hall() -> Hall:
    return Hall()


def narrow(most: int) -> RouteRecord:
    return RouteRecord("rt_m", "org_a", "m", (), max_queued=most)


async def test_a_freed_seat_wakes_exactly_one_and_in_order(hall: Hall) -> None:
    for name in "abc":
        await hall.ask(name)
    await hall.free()
    assert (hall.served, hall.room.depths(), hall.crowded) == (["a"], {"p": 2}, 1)
    await hall.free()
    await hall.free()
    assert hall.served == ["a", "b", "c"]
    hall.assert_empty()


async def test_the_urgent_go_first(hall: Hall) -> None:
    for name, priority in (("b", BATCH), ("d", DEFAULT), ("i", INTERACTIVE), ("d2", DEFAULT)):
        await hall.ask(name, priority)
    for _ in range(4):
        await hall.free()
    assert hall.served == ["i", "d", "d2", "b"]


async def test_tenants_of_a_class_share_it(hall: Hall) -> None:
    for number in range(4):
        await hall.ask(f"loud{number}", tenant="loud")
    await hall.ask("quiet", tenant="quiet")
    for _ in range(3):
        await hall.free()
    assert "quiet" in hall.served


async def test_batch_gets_an_eighth_of_the_seats_however_many_are_urgent(hall: Hall) -> None:
    await hall.ask("batch", BATCH)
    hall.clock.move(6.0)
    for number in range(20):
        await hall.ask(f"i{number}", INTERACTIVE)
        await hall.free()
    assert hall.served.index("batch") == 7


async def test_nobody_overtakes_one_who_was_promised_a_seat(hall: Hall) -> None:
    await hall.ask("a")
    hall.seated[0].busy = 0
    hall.room.serve("p")
    assert (hall.seated[0].is_full, hall.served) == (True, [])
    await hall.settle()
    assert (hall.seated[0].promised, hall.served) == (0, ["a"])


async def test_who_leaves_is_gone_at_once_and_never_served(hall: Hall) -> None:
    for name in "abc":
        await hall.ask(name)
    hall.tasks["a"].cancel()
    await hall.settle()
    assert hall.room.depths() == {"p": 2}
    await hall.free()
    assert hall.served == ["b"]


async def test_who_leaves_with_a_seat_promised_hands_it_on(hall: Hall) -> None:
    await hall.ask("a")
    await hall.ask("b")
    hall.seated[0].busy = 0
    hall.room.serve("p")
    hall.tasks["a"].cancel()
    await hall.settle()
    assert hall.served == ["b"]
    hall.assert_empty()


async def test_a_full_queue_refuses_and_says_when_to_come_back(hall: Hall) -> None:
    for name in "abc":
        await hall.ask(name, route=narrow(3))
    hall.clock.move(12.3)
    await hall.ask("d", route=narrow(3))
    error = hall.refused("d")
    assert (type(error), error.retry_after_s) == (QueueFull, 13)
    assert hall.shed(DEFAULT, "queue_full") == 1
    for _ in range(2):
        hall.clock.move(2.0)
        await hall.free()
    for name in "ef":
        await hall.ask(name, route=narrow(3))
    await hall.ask("g", route=narrow(3))
    assert hall.refused("g").retry_after_s == 32  # 2 have left in 16.3 s, 4 are to come


async def test_a_more_urgent_newcomer_takes_the_place_of_the_newest_least_urgent(
    hall: Hall,
) -> None:
    for name, priority in (("b1", BATCH), ("d1", DEFAULT), ("b2", BATCH)):
        await hall.ask(name, priority, route=narrow(3))
    await hall.ask("i", INTERACTIVE, route=narrow(3))
    await hall.ask("b3", BATCH, route=narrow(3))
    await hall.ask("d2", DEFAULT, route=narrow(3))
    await hall.ask("d3", DEFAULT, route=narrow(3))
    await hall.settle()
    assert {name for name, task in hall.tasks.items() if not task.done()} == {"d1", "i", "d2"}
    assert [type(hall.refused(name)) for name in ("b1", "b2", "b3", "d3")] == [QueueFull] * 4
    assert (hall.shed(BATCH, "displaced"), hall.shed(BATCH, "queue_full")) == (2, 1)
    assert hall.shed(DEFAULT, "queue_full") == 1


async def test_a_crowd_of_one_caller_does_not_keep_another_of_its_class_out(hall: Hall) -> None:
    for number in range(3):
        await hall.ask(f"loud{number}", tenant="loud", route=narrow(3))
    await hall.ask("quiet0", tenant="quiet", route=narrow(3))
    await hall.ask("quiet1", tenant="quiet", route=narrow(3))
    await hall.settle()
    left = {name for name, task in hall.tasks.items() if not task.done()}
    assert left == {"loud0", "loud1", "quiet0"}
    assert [type(hall.refused(name)) for name in ("loud2", "quiet1")] == [QueueFull] * 2
    for _ in range(3):
        await hall.free()
    hall.assert_empty()


async def test_held_bodies_are_bounded(hall: Hall) -> None:
    for number in range(4):
        await hall.ask(f"b{number}", BATCH, held_bytes=200)
    await hall.ask("large", BATCH, held_bytes=300)
    assert type(hall.refused("large")) is QueueFull
    await hall.ask("urgent", INTERACTIVE, held_bytes=500)
    await hall.settle()
    assert (hall.room.held_bytes, hall.room.waiting) == (900, 3)
    assert hall.shed(BATCH, "displaced") == 2


async def test_it_waits_so_long_and_not_at_all_if_the_route_says_so(hall: Hall) -> None:
    await hall.ask("a", wait_s=0.02)
    with pytest.raises(QueueTimeout):
        await hall.tasks["a"]
    await hall.ask("b", wait_s=0.0)
    assert type(hall.refused("b")) is QueueFull
    assert hall.shed(DEFAULT, "queue_timeout") == 1
    hall.assert_empty()


async def test_one_that_may_go_to_several_pools_goes_to_the_first_with_room() -> None:
    hall = Hall(seated=[Seat("w0", "p"), Seat("w1", "q")])
    await hall.ask("p only")
    await hall.ask("both", pools=("p", "q"))
    assert hall.room.depths() == {"p": 2}
    await hall.free(1)
    assert hall.served == ["both"]
    await hall.free(0)
    assert hall.served == ["both", "p only"]
    hall.assert_empty()


async def test_a_seat_goes_to_the_next_who_would_go_there(hall: Hall) -> None:
    await hall.ask("elsewhere", only="w9")
    await hall.ask("here")
    await hall.free()
    assert (hall.served, hall.room.depths()) == (["here"], {"p": 1})


async def test_those_who_wait_for_pools_that_are_to_stop_are_told(hall: Hall) -> None:
    await hall.ask("p only")
    await hall.ask("both", pools=("p", "q"))
    hall.unwanted = {"p"}
    hall.room.serve_all()
    await hall.settle()
    assert type(hall.refused("p only")) is NoCapacity
    assert not hall.tasks["both"].done()


async def test_seats_that_come_by_time_are_found(hall: Hall) -> None:
    await hall.ask("a")
    hall.seated[0].busy = 0
    async with asyncio.timeout(5):
        await hall.tasks["a"]
    assert hall.served == ["a"]


async def test_a_caller_that_waits_is_told_each_time_it_was_silent_for_long(hall: Hall) -> None:
    left: Iterator[float] = iter([0.01, 0.0, 0.01, 0.0, 60.0, 60.0])
    told = asyncio.Semaphore(0)

    async def comment() -> None:
        told.release()

    await hall.ask("a", silence=Silence(lambda: next(left, 60.0), comment), wait_s=5.0)
    async with asyncio.timeout(5):
        await told.acquire()
        await told.acquire()
    await hall.free()
    assert (hall.served, told.locked()) == (["a"], True)


async def test_waits_are_counted_by_class(hall: Hall) -> None:
    await hall.ask("a", INTERACTIVE)
    hall.clock.move(3.0)
    assert hall.room.oldest_waits_ms() == {"p": 3_000.0}
    await hall.free()
    read = hall.registry.get_sample_value
    labels = {"class": "interactive"}
    assert read("headworks_gateway_queue_wait_seconds_sum", labels) == 3.0
    assert read("headworks_gateway_queue_wait_seconds_count", labels) == 1

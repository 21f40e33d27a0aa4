"""Operating-system processes on one store: exact, whoever is killed and whatever the store does."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from redis import Redis as BlockingRedis

from inference.limits.broker import SETTLE_S
from inference.limits.link import WAIT_S
from inference.limits.slices import Counter, CountersUnknown
from tests.inference.limits.rig import SEEDED, Process, counter, running, slots
from tests.inference.limits.rig import WAIT_S as PATIENT_S
from tests.inference.stores import OwnStore

pytestmark = pytest.mark.slow


FORK = multiprocessing.get_context("fork")
CALLERS = 4
PATIENCE_S = 60.0


class Tally:
    """Numbers that all processes share."""

    def __init__(self) -> None:
        self.granted = FORK.Value("q", 0)
        self.unknown = FORK.Value("q", 0)
        self.under_way = FORK.Value("q", 0)
        self.most = FORK.Value("q", 0)
        self.is_over = FORK.Event()

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Nobody writes inside the block: who is killed while he does leaves all others waiting."""
        with ExitStack() as stack:
            for number in (self.granted, self.unknown, self.under_way, self.most):
                stack.enter_context(number.get_lock())
            yield


def add(number: Any, units: int) -> int:
    with number.get_lock():
        number.value += units
        return int(number.value)


@contextmanager
def processes(count: int, run: Callable[[str], None]) -> Iterator[Sequence[Any]]:
    """So many processes of this program, which have ended after the block."""
    started = [FORK.Process(target=run, args=(f"{n:02x}",), daemon=True) for n in range(count)]
    for one in started:
        one.start()
    try:
        yield started
        for one in started:
            one.join(PATIENCE_S)
            assert one.exitcode is not None, "a process goes on"
    finally:
        for one in started:
            one.kill()
            one.join()


def seed(store: OwnStore) -> None:
    with BlockingRedis.from_url(store.admin_url) as admin:
        admin.mset(SEEDED)


def drive(
    store: OwnStore, work: Callable[[Process], Any], holder: str, *, settle_s: float = 0
) -> None:
    """One process's life: several callers at a time, until each has had enough."""

    async def live() -> None:
        wait_s = WAIT_S if settle_s else PATIENT_S
        async with running(store, holder, settle_s=settle_s, wait_s=wait_s) as process:
            await asyncio.gather(*(work(process) for _ in range(CALLERS)))

    asyncio.run(live())


async def take_until_refused(process: Process, wanted: Counter, tally: Tally) -> None:
    """Take one after another; what can't be known is asked again."""
    while True:
        try:
            permit = await process.take(wanted)
        except CountersUnknown:
            add(tally.unknown, 1)
            await asyncio.sleep(0.01)
            continue
        if permit is None:
            return
        add(tally.granted, 1)
        await asyncio.sleep(0.0005)


async def hold_for_a_moment(process: Process, wanted: Counter, tally: Tally) -> None:
    """Take a slot, be seen with it, and give it back, some times over."""
    done = 0
    while done < 5:
        permit = await process.take(wanted)
        if permit is None:
            await asyncio.sleep(0.002)
            continue
        now = add(tally.under_way, 1)
        with tally.most.get_lock():
            tally.most.value = max(tally.most.value, now)
        await asyncio.sleep(0.001)
        add(tally.under_way, -1)
        process.leases.undo(permit)
        done += 1
        add(tally.granted, 1)


def test_eight_processes_are_granted_the_amount_and_not_one_more_or_less(
    own_store: OwnStore,
) -> None:
    seed(own_store)
    tally = Tally()
    work = partial(take_until_refused, wanted=counter(1_500), tally=tally)
    with processes(8, partial(drive, own_store, work)):
        pass
    assert tally.granted.value == 1_500


def test_no_more_slots_are_held_at_a_time_than_there_are(own_store: OwnStore) -> None:
    seed(own_store)
    tally = Tally()
    work = partial(hold_for_a_moment, wanted=slots(3), tally=tally)
    with processes(3, partial(drive, own_store, work)):
        pass
    assert (tally.granted.value, tally.under_way.value) == (3 * CALLERS * 5, 0)
    assert 1 < tally.most.value <= 3


def test_killed_processes_let_nobody_pass_the_amount(own_store: OwnStore) -> None:
    seed(own_store)
    tally = Tally()
    work = partial(take_until_refused, wanted=counter(6_000), tally=tally)
    with processes(4, partial(drive, own_store, work)) as started:
        until(lambda: tally.granted.value > 500)
        with tally.unwritten():
            for one in started[:2]:
                os.kill(one.pid, signal.SIGKILL)
    assert 3_000 < tally.granted.value <= 6_000


def test_a_store_that_stops_dies_and_comes_back_empty_lets_nobody_pass_the_amount(
    own_store: OwnStore,
) -> None:
    seed(own_store)
    tally = Tally()
    work = partial(take_until_refused, wanted=counter(4_000), tally=tally)
    with processes(3, partial(drive, own_store, work, settle_s=SETTLE_S)):
        until(lambda: tally.granted.value > 300)
        own_store.freeze()
        before = tally.unknown.value
        until(lambda: tally.unknown.value > before + 20)
        own_store.thaw()
        reached = tally.granted.value
        until(lambda: tally.granted.value > reached + 300)
        own_store.restart()
        before = tally.unknown.value
        until(lambda: tally.unknown.value > before + 20)
        seed(own_store)
    assert tally.granted.value == 4_000


def until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def take_of_both(
    process: Process, wanted: Sequence[Counter], tallies: Sequence[Tally]
) -> None:
    """Take one, the other or both by turns, until neither gives anything."""
    turn, refused = 0, 0
    while refused < 3:
        turn += 1
        places = ((0,), (1,), (0, 1))[turn % 3]
        permit = await process.take(*(wanted[place] for place in places))
        refused = refused + 1 if permit is None else 0
        if permit is not None:
            for place in places:
                add(tallies[place].granted, 1)


def test_what_a_refused_request_was_kept_is_missed_by_nobody(own_store: OwnStore) -> None:
    seed(own_store)
    tallies = (Tally(), Tally())
    wanted = (counter(700, name="a"), counter(1_100, name="b"))
    work = partial(take_of_both, wanted=wanted, tallies=tallies)
    with processes(4, partial(drive, own_store, work)):
        pass
    assert [one.granted.value for one in tallies] == [700, 1_100]

"""Bodies that wait, by their bytes: no route's large ones keep another's out."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass
from inference.contract.snapshot import RouteRecord
from inference.errors import QueueFull
from tests.inference.queues.test_room import Hall

INTERACTIVE, DEFAULT, BATCH = PriorityClass


@pytest.fixture
async def hall() -> Hall:
    """A waiting room for 1,000 bytes."""
    return Hall()


def named(name: str) -> RouteRecord:
    return RouteRecord(f"rt_{name}", "org_a", name, ())


def left(hall: Hall) -> set[str]:
    """Those who wait."""
    return {name for name, task in hall.tasks.items() if not task.done()}


async def test_no_route_keeps_another_from_holding_as_much_as_itself(hall: Hall) -> None:
    large, small = named("large"), named("small")
    for number in range(5):
        await hall.ask(f"large{number}", (BATCH, DEFAULT)[number > 0], route=large, held_bytes=190)
    await hall.ask("small0", BATCH, route=small, held_bytes=100)
    await hall.ask("large5", INTERACTIVE, route=large, held_bytes=190)
    for number in range(1, 5):
        await hall.ask(f"small{number}", BATCH, route=small, held_bytes=100)
    await hall.settle()
    assert left(hall) == {
        *("large1", "large5"),  # those that came last, of the least urgent first
        *("small0", "small1", "small2", "small3", "small4"),
    }
    assert hall.room.held_bytes == 880
    # with it the route would hold more than the other: it finds no place but its own
    await hall.ask("small5", BATCH, route=small, held_bytes=130)
    assert type(hall.refused("small5")) is QueueFull
    for name in ("third", "fourth"):
        await hall.ask(name, route=named(name), held_bytes=250)
    await hall.settle()
    assert hall.room.held_bytes <= 1_000
    assert {"third", "fourth"} <= left(hall)
    for task in hall.tasks.values():
        task.cancel()
    await hall.settle()
    hall.assert_empty()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.booleans()), max_size=40))
def test_a_route_is_refused_for_bytes_only_if_it_holds_its_part(
    asked: list[tuple[str, int, bool]],
) -> None:
    async def play() -> None:
        hall = Hall()
        held: dict[str, int] = {}
        for number, (route, size, frees) in enumerate(asked):
            name = f"{route}{number} {size}"
            await hall.ask(name, route=named(route), held_bytes=size)
            await hall.settle()
            task = hall.tasks[name]
            if task.done() and task.exception() is not None:
                assert held.get(route, 0) + size > 1_000 / len({*held, route})
            if frees and left(hall):
                await hall.free()
            held = {}
            for one in left(hall):
                held[one[0]] = held.get(one[0], 0) + int(one.split()[1])
            assert sum(held.values()) == hall.room.held_bytes <= 1_000
        for task in hall.tasks.values():
            task.cancel()
        await hall.settle()
        hall.assert_empty()

    asyncio.run(play())

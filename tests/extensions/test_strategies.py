"""What every routing strategy promises, asked of each."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import Strategy
from inference.decisions.routing.base import Room, RoutingStrategy, Wish
from inference.decisions.routing.registry import REGISTRY
from tests.decisions.candidates import Candidate, room

CANDIDATE = st.builds(
    Candidate,
    id=st.just(""),
    inflight=st.integers(0, 300),
    peers_inflight=st.integers(0, 300),
    prefill_tokens=st.integers(0, 1_000_000),
    prefill_rate=st.floats(10.0, 1_000_000.0),
    concurrency=st.integers(1, 1_024),
    kv_used=st.none() | st.floats(0.0, 1.0),
)
SEATS = st.lists(st.lists(CANDIDATE, min_size=1, max_size=12), max_size=4)
WEIGHTS = st.lists(st.integers(1, 1_000_000), min_size=4, max_size=4)
HITS = st.lists(st.floats(0.0, 1.0), min_size=48, max_size=48)
CHANCE = st.floats(0.0, 1.0, exclude_max=True)

each_strategy: Callable[..., object] = pytest.mark.parametrize(
    "strategy", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)


def rooms_of(seats: list[list[Candidate]], weights: list[int]) -> list[Room[Candidate]]:
    """Rooms of these workers, each with a name of its own."""
    for position, workers in enumerate(seats):
        for number, worker in enumerate(workers):
            worker.id = f"w{position}-{number}"
    return [
        room(position, *workers, weight=weights[position]) for position, workers in enumerate(seats)
    ]


def test_every_kind_is_listed() -> None:
    assert set(REGISTRY) == set(Strategy)


@each_strategy
@given(seats=SEATS, weights=WEIGHTS, hits=HITS, u=CHANCE)
def test_a_worker_of_a_room_is_chosen_if_there_is_one_and_always_the_same(
    strategy: RoutingStrategy,
    seats: list[list[Candidate]],
    weights: list[int],
    hits: list[float],
    u: float,
) -> None:
    rooms = rooms_of(seats, weights)
    names = [worker.id for one in rooms for worker in one.workers]
    wish = Wish(dict(zip(names, hits, strict=False)), max_wait_penalty=0.5)
    choice = strategy.pick(rooms, wish=wish, u=u)
    if not rooms:
        assert choice is None
        return
    assert choice is not None
    assert choice.worker.id in [worker.id for worker in rooms[choice.room.position].workers]
    assert (choice.score is None) is (choice.candidates == 1)
    again = strategy.pick(rooms, wish=wish, u=u)
    assert again is not None
    assert again.worker is choice.worker

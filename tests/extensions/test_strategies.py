"""What every routing strategy promises, asked of each."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.console.route_impact import STRATEGY_WORDS
from inference.contract.kinds import Strategy
from inference.decisions.routing.base import Room, RoutingStrategy, Wish
from inference.decisions.routing.registry import REGISTRY
from tests.decisions.candidates import Candidate, room

pytestmark = pytest.mark.slow


_chance = random.Random(7)

WORKERS = [
    Candidate(
        "",
        inflight=_chance.choice((0, 0, 1, 20, 300)),
        peers_inflight=_chance.choice((0, 0, 5, 300)),
        prefill_tokens=_chance.choice((0, 0, 900, 1_000_000)),
        prefill_rate=_chance.choice((10.0, 4_000.0, 1_000_000.0)),
        concurrency=_chance.choice((1, 16, 1_024)),
        kv_used=_chance.choice((None, 0.0, 0.5, 1.0)),
        first_token_s=_chance.choice((None, 0.001, 0.2, 1_000.0)),
        first_token_at_s=_chance.choice((0.0, 400.0, 1_000.0)),
    )
    for _ in range(200)
]
"""Drawn from by turns: a fresh one each time would take longer than all that is tested."""

SEATS = st.lists(st.lists(st.sampled_from(WORKERS), min_size=1, max_size=12), max_size=4)
WEIGHTS = st.lists(st.integers(1, 1_000_000), min_size=4, max_size=4)
HITS = st.lists(st.floats(0.0, 1.0), max_size=6)
COSTS = st.lists(st.none() | st.integers(0, 2**63 - 1), min_size=4, max_size=4)
CHANCE = st.floats(0.0, 1.0, exclude_max=True)

each_strategy: Callable[..., object] = pytest.mark.parametrize(
    "strategy", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)


def rooms_of(
    seats: list[list[Candidate]], weights: list[int], costs: list[int | None]
) -> list[Room[Candidate]]:
    """Rooms of workers like these, each with a name of its own."""
    found = []
    for position, (seat, weight, cost) in enumerate(zip(seats, weights, costs, strict=False)):
        workers = [replace(one, id=f"w{position}-{number}") for number, one in enumerate(seat)]
        plain = room(position, *workers, weight=weight)
        found.append(replace(plain, cost_max_nanousd=cost))
    return found


def test_every_kind_is_listed() -> None:
    assert set(REGISTRY) == set(Strategy)


def test_the_review_page_has_words_for_every_kind() -> None:
    assert set(STRATEGY_WORDS) == set(Strategy)


@each_strategy
@given(seats=SEATS, weights=WEIGHTS, costs=COSTS, hits=HITS, session=st.text(), u=CHANCE)
def test_a_worker_of_a_room_is_chosen_if_there_is_one_and_always_the_same(
    strategy: RoutingStrategy,
    seats: list[list[Candidate]],
    weights: list[int],
    costs: list[int | None],
    hits: list[float],
    session: str,
    u: float,
) -> None:
    rooms = rooms_of(seats, weights, costs)
    names = [worker.id for one in rooms for worker in one.workers]
    known = dict(zip(names, hits, strict=False))
    wish = Wish(known, max_wait_penalty=0.5, affinity=session, now_s=500.0)
    choice = strategy.pick(rooms, wish=wish, u=u)
    if not rooms:
        assert choice is None
        return
    assert choice is not None
    assert choice.worker.id in [worker.id for worker in rooms[choice.room.position].workers]
    assert (choice.score is None) is (choice.candidates == 1)
    assert {type(value) for value in choice.terms.values()} <= {int, float, bool, type(None)}
    again = strategy.pick(rooms, wish=wish, u=u)
    assert again is not None
    assert again.worker is choice.worker

"""Requests that belong together stay together, for as long as that is fair to the others."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.decisions.routing.base import Choice, Room, Wish
from inference.decisions.routing.bounded import LOAD_BOUND, load_of, shares_of
from inference.decisions.routing.strategies import prefix_affinity, session_affinity
from tests.decisions.candidates import Candidate, room

SESSIONS = [f"session-{number}" for number in range(2_000)]


def served(rooms: Sequence[Room[Candidate]], session: str) -> Choice[Candidate]:
    choice = session_affinity.pick(rooms, wish=Wish(affinity=session), u=0.5)
    assert choice is not None
    return choice


def homes(rooms: Sequence[Room[Candidate]]) -> dict[str, str]:
    """The worker of each session, while nobody has anything to do."""
    return {session: served(rooms, session).worker.id for session in SESSIONS}


def test_sessions_spread_evenly_over_the_workers_of_a_pool() -> None:
    counts = Counter(homes([room(0, "a", "b", "c", "d")]).values())
    assert set(counts) == set("abcd")
    assert all(450 <= count <= 550 for count in counts.values())


def test_sessions_spread_over_targets_by_weight() -> None:
    counts = Counter(homes([room(0, "a", "b", weight=3), room(1, "c", weight=1)]).values())
    assert counts["c"] == pytest.approx(500, abs=60)
    assert counts["a"] == pytest.approx(750, abs=60)


def test_a_worker_that_leaves_moves_its_own_sessions_only() -> None:
    before, after = homes([room(0, "a", "b", "c", "d")]), homes([room(0, "a", "b", "d")])
    moved = {session for session in SESSIONS if before[session] != after[session]}
    assert moved == {session for session in SESSIONS if before[session] == "c"}
    # they go to all the others, not to one
    assert set(Counter(after[session] for session in moved)) == set("abd")


def test_neither_the_order_of_targets_nor_chance_moves_a_session() -> None:
    one, other = room(0, "a", "b"), room(1, "c", "d")
    assert homes([one, other]) == homes([other, one])
    for u in (0.0, 0.999):
        choice = session_affinity.pick([one, other], wish=Wish(affinity="s"), u=u)
        assert choice is not None
        assert choice.worker.id == served([one, other], "s").worker.id


def test_a_worker_with_more_than_its_share_leaves_sessions_to_the_next() -> None:
    session = "s"
    workers = [Candidate(name) for name in "abcd"]
    home = served([room(0, *workers)], session)
    assert home.terms == {"load": 0, "load_bound": 1, "is_moved": False}
    home.worker.inflight = 1
    next_home = served([room(0, *workers)], session)
    assert next_home.worker is not home.worker
    assert next_home.terms["is_moved"] is True
    # as soon as the others have as much, it is home again
    for worker in workers:
        worker.inflight = 4
    back = served([room(0, *workers)], session)
    assert (back.worker, back.terms["load_bound"]) == (home.worker, 6)


def test_what_other_gateways_have_there_counts_as_load() -> None:
    workers = [Candidate(name) for name in "ab"]
    home = served([room(0, *workers)], "s").worker
    home.peers_inflight = 9
    assert served([room(0, *workers)], "s").worker is not home


CANDIDATES = st.lists(
    st.builds(Candidate, id=st.just(""), inflight=st.integers(0, 50)), min_size=1, max_size=9
)


@given(seats=st.lists(CANDIDATES, min_size=1, max_size=3), weights=st.lists(st.integers(1, 1_000)))
def test_somebody_always_has_space_and_nobody_gets_more_than_the_bound(
    seats: list[list[Candidate]], weights: list[int]
) -> None:
    weights += [1] * len(seats)
    rooms = [room(place, *workers, weight=weights[place]) for place, workers in enumerate(seats)]
    shares = shares_of(rooms)
    total = sum(load_of(worker) for one in rooms for worker in one.workers) + 1
    fair = [LOAD_BOUND * total * weight / sum(weights[: len(seats)]) for weight in weights]
    assert any(
        load_of(worker) < share.bound
        for one, share in zip(rooms, shares, strict=True)
        for worker in one.workers
    )
    for one, share, fairly in zip(rooms, shares, fair, strict=False):
        assert 1 <= share.bound <= ceil(fairly / len(one.workers) + 1e-9)


def warmest(rooms: Sequence[Room[Candidate]], **hits: float) -> Choice[Candidate]:
    choice = prefix_affinity.pick(rooms, wish=Wish(hits), u=0.0)
    assert choice is not None
    return choice


def test_the_worker_with_most_of_the_prompt_is_taken_however_little_that_is() -> None:
    choice = warmest([room(0, "a", "b", "c")], b=0.1, c=0.2)
    assert (choice.worker.id, choice.is_warm) == ("c", True)
    assert choice.terms == {"hit": 0.2, "load": 0, "load_bound": 1}


def test_of_equally_warm_workers_the_freer_one_is_taken() -> None:
    busy, free = Candidate("a", prefill_tokens=9), Candidate("b")
    assert warmest([room(0, busy, free)], a=0.5, b=0.5).worker is free


def test_a_warm_worker_with_more_than_its_share_leaves_the_prompt_to_the_next_warm_one() -> None:
    first, second = Candidate("a", inflight=3), Candidate("b", inflight=1)
    rooms = [room(0, first, second, "c", "d")]
    assert warmest(rooms, a=1.0, b=0.5).worker is second
    second.inflight = 9
    assert warmest(rooms, a=1.0, b=0.5).worker is first


def test_a_prompt_that_nobody_has_goes_to_the_least_wait() -> None:
    rooms = [room(0, Candidate("a", inflight=3), "b")]
    choice = warmest(rooms)
    assert (choice.worker.id, choice.is_warm, dict(choice.terms)) == ("b", False, {})
    # and so does one that only a worker without space has
    assert warmest(rooms, a=1.0).worker.id == "b"

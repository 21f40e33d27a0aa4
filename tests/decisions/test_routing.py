"""Draws by weight, waits, and what each strategy makes of them."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import TargetRecord
from inference.decisions.routing.base import Room, Score, Wish
from inference.decisions.routing.draws import order_targets
from inference.decisions.routing.strategies import least_work, weighted
from inference.decisions.routing.waits import MAX_COMPARED, pick_least, score_of, wait_of
from tests.decisions.candidates import Candidate, room, spread


def made(*weights: int) -> tuple[TargetRecord, ...]:
    return tuple(TargetRecord(f"t{index}", "p", weight) for index, weight in enumerate(weights))


def orders(*weights: int, draws: int) -> Counter[str]:
    """How often each order came out over evenly spread numbers."""
    found: Counter[str] = Counter()
    for u in spread(draws):
        found["".join(target.id[1] for target in order_targets(made(*weights), u=u))] += 1
    return found


def test_first_places_are_shared_by_weight() -> None:
    firsts: Counter[str] = Counter()
    for order, count in orders(80, 15, 5, draws=1_000).items():
        firsts[order[0]] += count
    assert firsts == {"0": 800, "1": 150, "2": 50}


def test_second_places_are_shared_by_what_is_left() -> None:
    # 60 of 100 draws begin with 0; of those 1 and 2 are drawn as 3 to 1
    assert orders(60, 30, 10, draws=6_000)["012"] == 2_700
    assert orders(60, 30, 10, draws=6_000)["021"] == 900


def test_weight_zero_is_never_drawn() -> None:
    assert orders(1, 0, draws=500) == {"0": 500}
    assert order_targets(made(0, 0), u=0.5) == ()
    assert order_targets((), u=0.5) == ()


@given(
    weights=st.lists(st.integers(0, 1_000_000), max_size=8),
    u=st.floats(0.0, 1.0, exclude_max=True),
)
def test_every_target_with_a_weight_comes_exactly_once(weights: list[int], u: float) -> None:
    drawn = order_targets(made(*weights), u=u)
    expected = [index for index, weight in enumerate(weights) if weight > 0]
    assert sorted(int(target.id[1:]) for target in drawn) == expected


def test_a_wait_adds_prefill_requests_and_a_filling_cache_of_all_gateways() -> None:
    worker = Candidate(
        "a",
        inflight=3,
        peers_inflight=5,
        prefill_tokens=1_000,
        peers_prefill_tokens=3_000,
        prefill_rate=8_000.0,
        concurrency=16,
        kv_used=0.75,
    )
    score = score_of(worker)
    assert (score.prefill, score.requests) == (0.5, 0.5)
    assert score.kv == pytest.approx(0.45)
    assert wait_of(worker) == score.wait == pytest.approx(1.45)
    worker.kv_used = None
    assert score_of(worker) == Score(0.5, 0.5, 0.0)
    worker.kv_used = 1.0
    assert wait_of(worker) == pytest.approx(1.0 + 0.15 * 99)


def chosen(rooms: Sequence[Room[Candidate]], count: int = 300) -> Counter[str]:
    """Who is picked over evenly spread chances, one for the order and one for the pick."""
    seats = {one.target: one.workers for one in rooms}
    found: Counter[str] = Counter()
    for u in spread(count):
        drawn = order_targets([one.target for one in rooms], u=u)
        ordered = [Room(target, seats[target], at) for at, target in enumerate(drawn)]
        found[pick_least(ordered, u=u * 7.3 % 1).worker.id] += 1
    return found


def test_the_worker_with_the_least_wait_is_picked_whatever_chance_says() -> None:
    rooms = [room(0, Candidate("a", inflight=2), Candidate("b", inflight=1), weight=1_000)]
    assert chosen([*rooms, room(1, Candidate("c", prefill_tokens=3))]) == {"b": 300}


def test_an_idle_fleet_is_shared_by_weight_and_evenly_inside_a_target() -> None:
    rooms = [room(0, "a", "b", weight=80), room(1, "c", weight=15), room(2, "d", weight=5)]
    found = chosen(rooms, 1_000)
    assert (found["a"] + found["b"], found["c"], found["d"]) == (800, 150, 50)
    assert found["a"] == pytest.approx(400, abs=20)


def test_of_equals_only_those_with_the_least_wait_are_drawn() -> None:
    rooms = [room(0, "a", Candidate("b", inflight=1)), room(1, Candidate("c", inflight=9), "d")]
    assert chosen(rooms) == {"a": 150, "d": 150}


def test_a_busy_target_leaves_the_others_their_shares() -> None:
    rooms = [room(0, Candidate("a", inflight=1), weight=60), room(1, "b", weight=30)]
    assert chosen([*rooms, room(2, "c", weight=10)], 600) == {"b": 450, "c": 150}


def test_waits_that_differ_by_rounding_are_equal() -> None:
    almost = Candidate("b", prefill_tokens=1, prefill_rate=1e12)
    assert {pick_least([room(0, "a", almost)], u=u).worker.id for u in (0.2, 0.8)} == {"a", "b"}


def test_the_choice_says_who_it_was_among_and_how_long_the_wait_is() -> None:
    choice = pick_least([room(0, Candidate("a", inflight=2), Candidate("b", inflight=3))], u=0.25)
    assert (choice.worker.id, choice.candidates, choice.least_wait, choice.u) == ("a", 2, 2.0, 0.25)
    assert choice.score == Score(prefill=0.0, requests=2.0, kv=0.0)


def test_a_worker_without_rival_is_not_scored() -> None:
    choice = pick_least([room(0, Candidate("a", inflight=9))], u=0.9)
    assert (choice.worker.id, choice.candidates, choice.score) == ("a", 1, None)


def test_of_many_workers_the_better_of_two_drawn_by_weight_is_picked() -> None:
    busy = [Candidate(f"w{index}", inflight=index) for index in range(MAX_COMPARED)]
    free = [Candidate(f"f{index}", inflight=1_000) for index in range(MAX_COMPARED)]
    rooms = [room(0, *busy, weight=3), room(1, *free, weight=1)]
    picks = Counter(pick_least(rooms, u=u).worker.id[0] for u in spread(4_096))
    # the other target's workers are picked where both draws fell on it: a quarter squared
    assert picks["f"] == pytest.approx(4_096 / 16, abs=16)
    assert len({pick_least(rooms, u=u).worker.id for u in spread(4_096)}) > MAX_COMPARED
    assert pick_least(rooms, u=0.3).candidates == 2 * MAX_COMPARED


def test_weighted_splits_exactly_by_target_however_busy_one_is() -> None:
    targets = made(3, 1)
    seats = {
        "t0": (Candidate("busy", inflight=9), Candidate("busier", inflight=10)),
        "t1": (Candidate("idle"),),
    }

    def pick(u: float) -> str:
        drawn = order_targets(targets, u=u)
        rooms = [Room(target, seats[target.id], at) for at, target in enumerate(drawn)]
        choice = weighted.pick(rooms, wish=Wish(), u=u)
        assert choice is not None
        return choice.worker.id

    assert Counter(pick(u) for u in spread(400)) == {"busy": 300, "idle": 100}


def warm_pick(penalty: float, *, hit: float = 0.8, inflight: int = 2) -> tuple[str, bool]:
    """Who is picked of a warm worker with so much under way, and a cold one that waits 1.5."""
    warm = Candidate("warm", inflight=inflight)
    cold = Candidate("cold", prefill_tokens=3, prefill_rate=2.0)
    wish = Wish({"warm": hit}, max_wait_penalty=penalty)
    choice = least_work.pick([room(0, cold), room(1, warm)], wish=wish, u=0.0)
    assert choice is not None
    return choice.worker.id, choice.is_warm


def test_a_warm_worker_is_kept_until_its_wait_is_too_much_longer() -> None:
    assert warm_pick(0.5) == ("warm", True)
    assert warm_pick(0.49) == ("cold", False)
    assert warm_pick(0.0) == ("cold", False)


def test_less_than_four_fifths_of_a_prompt_make_no_worker_warm() -> None:
    assert warm_pick(0.5, hit=0.79) == ("cold", False)


def test_of_warm_workers_the_one_with_the_least_wait_is_taken() -> None:
    rooms = [room(0, "cold"), room(1, Candidate("a", inflight=2), Candidate("b", inflight=1))]
    wish = Wish({"a": 1.0, "b": 0.9}, max_wait_penalty=1.0)
    choice = least_work.pick(rooms, wish=wish, u=0.0)
    assert choice is not None
    assert (choice.worker.id, choice.is_warm, choice.least_wait) == ("b", True, 0.0)
    assert choice.score == Score(0.0, 1.0, 0.0)


def test_of_equally_free_warm_workers_the_one_with_more_of_it_is_taken() -> None:
    wish = Wish({"a": 0.8, "b": 1.0}, max_wait_penalty=1.0)
    choice = least_work.pick([room(0, "a", "b", "c")], wish=wish, u=0.0)
    assert choice is not None
    assert choice.worker.id == "b"


@given(
    prompts=st.lists(st.integers(0, 3), min_size=2, max_size=6),
    u=st.floats(0.0, 1.0, exclude_max=True),
)
def test_the_least_of_one_room_is_chosen_like_the_least_of_several(
    prompts: list[int], u: float
) -> None:
    only = room(0, *(Candidate(f"w{n}", prefill_tokens=one) for n, one in enumerate(prompts)))
    assert pick_least([only], u=u) == pick_least([only], u=u, wait_at=wait_of)

"""Weighted routing: in proportion, without replacement, from one number."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from inference.contract.snapshot import TargetRecord
from inference.decisions.routing.strategies.weighted import order_targets


def made(*weights: int) -> tuple[TargetRecord, ...]:
    return tuple(TargetRecord(f"t{index}", "p", weight) for index, weight in enumerate(weights))


def orders(*weights: int, draws: int) -> Counter[str]:
    """How often each order came out over evenly spread numbers."""
    found: Counter[str] = Counter()
    for step in range(draws):
        drawn = order_targets(made(*weights), u=(step + 0.5) / draws)
        found["".join(target.id[1] for target in drawn)] += 1
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

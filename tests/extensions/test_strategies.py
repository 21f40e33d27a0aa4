"""What every routing strategy promises, asked of each."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import Strategy
from inference.contract.snapshot import TargetRecord
from inference.decisions.routing.base import OrderTargets
from inference.decisions.routing.registry import REGISTRY

TARGETS = st.lists(st.integers(0, 1_000_000), max_size=6).map(
    lambda weights: tuple(
        TargetRecord(f"tgt_{index}", f"pool_{index}", weight)
        for index, weight in enumerate(weights)
    )
)
CHANCE = st.floats(0.0, 1.0, exclude_max=True)

each_strategy: Callable[..., object] = pytest.mark.parametrize(
    "order_targets", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)


def test_every_kind_is_listed() -> None:
    assert set(REGISTRY) == set(Strategy)


@each_strategy
@given(targets=TARGETS, u=CHANCE)
def test_an_order_holds_each_target_once_and_none_of_weight_zero(
    order_targets: OrderTargets, targets: tuple[TargetRecord, ...], u: float
) -> None:
    ordered = order_targets(targets, u=u)
    assert len(set(ordered)) == len(ordered)
    assert set(ordered) <= set(targets)
    assert all(target.weight > 0 for target in ordered)
    assert bool(ordered) is any(target.weight > 0 for target in targets)


@each_strategy
@given(targets=TARGETS, u=CHANCE)
def test_the_same_chance_gives_the_same_order(
    order_targets: OrderTargets, targets: tuple[TargetRecord, ...], u: float
) -> None:
    assert order_targets(targets, u=u) == order_targets(targets, u=u)

"""What every step of degradation promises, asked of each."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from inference.contract.kinds import DegradationStep, PriorityClass
from inference.decisions.degradation.base import Serving, Step
from inference.decisions.degradation.registry import REGISTRY
from inference.decisions.plan import Plan
from tests.decisions.test_queueing import planned

each_step: Callable[..., object] = pytest.mark.parametrize(
    "step", REGISTRY.values(), ids=[kind.value for kind in REGISTRY]
)


def plans() -> list[Plan]:
    """One for each class, of few and of many tokens, with and without a further tier."""
    made = [
        planned(*tiers, output_tokens_requested=most, answers=answers)
        for tiers in (("a",), ("ab", "c"))
        for most in (None, 1, 100_000)
        for answers in (0, 1, 3)
    ]
    return [
        replace(one, standing=replace(one.standing, priority=priority))
        for one in made
        for priority in PriorityClass
    ]


def test_every_kind_is_listed_in_the_order_of_steps() -> None:
    assert tuple(REGISTRY) == tuple(DegradationStep)


@each_step
def test_a_step_takes_and_never_gives(step: Step) -> None:
    for plan in plans():
        before = Serving(plan)
        after = step(before)
        assert (after is before) is (after == before)
        assert after.plan.targets
        assert all(one in plan.targets for one in after.plan.targets)
        assert after.plan.output_tokens_max <= plan.output_tokens_max
        assert after.plan.route == plan.route


@each_step
def test_a_step_taken_twice_does_no_more(step: Step) -> None:
    single_tier = [plan for plan in plans() if len({one.target.tier for one in plan.targets}) < 2]
    for plan in single_tier:
        once = step(Serving(plan))
        again = step(once)
        assert (again.plan, again.is_shed) == (once.plan, once.is_shed)


@each_step
def test_whoever_sits_before_it_is_answered(step: Step) -> None:
    for plan in plans():
        if plan.standing.priority is PriorityClass.INTERACTIVE:
            assert not step(Serving(plan)).is_shed

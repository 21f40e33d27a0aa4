"""Sizes of experiments, and what they can find."""

import pytest

from controlplane.decisions.experiments.looks import FixedHorizon, Looks, tuned
from controlplane.decisions.experiments.planning import (
    Baseline,
    Plan,
    baseline,
    days_left,
    plan,
    smallest_effect,
    units_needed,
)
from tests.decisions.experiments.readings import events, values


def planned(baseline: Baseline, effect: float, looks: Looks = Looks.FIXED, **others: float) -> Plan:
    shares = (others.pop("control", 1.0), others.pop("treatment", 1.0))
    known = {"alpha": 0.05, "power": 0.8} | others
    return plan(baseline, shares, effect=effect, looks=looks, **known)  # type: ignore[arg-type]


def test_half_a_standard_deviation_takes_63_units_an_arm() -> None:
    # 2 * (1.95996 + 0.84162)^2 / 0.5^2 = 62.8 (Cohen's table for the normal)
    assert planned(Baseline(1.0, 1.0), 0.5).units_by_arm == (63, 63)


def test_a_rate_from_ten_to_twelve_in_a_hundred() -> None:
    # 2 * 7.8489 * 0.09 / 0.02^2
    assert planned(Baseline(0.1, 0.09), 0.2).units_by_arm == (3_532, 3_532)


def test_uneven_arms_take_more() -> None:
    found = planned(Baseline(1.0, 1.0), 0.5, control=8, treatment=2)
    assert found.units_by_arm == (157, 40)


def test_free_looks_take_at_most_twice_as_many() -> None:
    found = {looks: planned(Baseline(1.0, 1.0), 0.05, looks).units for looks in Looks}
    assert found == {Looks.FIXED: 12_560, Looks.SEQUENTIAL: 24_052}


def test_days_follow_from_what_comes_and_nothing_coming_takes_for_ever() -> None:
    assert planned(Baseline(1.0, 1.0), 0.5, units_a_day=12.6).days == pytest.approx(10.0)
    assert planned(Baseline(1.0, 1.0), 0.5).days is None
    assert (days_left(0, None), days_left(5, 0.0), days_left(5, 10.0)) == (0.0, None, 0.5)


def test_of_nothing_no_share_can_be_found() -> None:
    assert planned(Baseline(0.0, 1.0), 0.5) == Plan(None, None, None)
    assert units_needed(1.0, FixedHorizon(), units=9, effect=0.0, alpha=0.05, power=0.8) is None


def test_what_is_found_now_needs_as_many_units_as_there_are() -> None:
    for framework in (FixedHorizon(), tuned(10_000, 0.05)):
        now = smallest_effect(0.2, framework, units=4_000, alpha=0.05, power=0.8)
        needed = units_needed(0.2, framework, units=4_000, effect=now, alpha=0.05, power=0.8)
        assert needed == pytest.approx(4_000, rel=2e-4)
    assert smallest_effect(
        0.2, FixedHorizon(), units=4_000, alpha=0.05, power=0.8
    ) == pytest.approx(0.2 * 2.80158, rel=1e-5)


def test_a_baseline_is_of_what_units_did_before() -> None:
    assert baseline(values(2, 4, 6)) == Baseline(4.0, pytest.approx(4.0))
    assert baseline(events(1_000, 100), is_rate=True) == Baseline(
        0.1, pytest.approx(0.09, rel=0.01)
    )
    assert baseline(values(3)) is None

"""Units that came otherwise than planned."""

from math import log
from random import Random

import pytest

from controlplane.decisions.experiments.discoveries import adjust_p_values
from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.sample_ratio import sample_ratio


@pytest.mark.parametrize("looks", list(Looks))
def test_c142_a_mismatch_is_found_that_a_percentage_hides(looks: Looks) -> None:
    found = sample_ratio([4_072, 2_035], [8_000, 2_000], looks)
    assert found.is_mismatched
    assert found.expected == (pytest.approx(4_885.6), pytest.approx(1_221.4))
    assert found.chi_squared == pytest.approx(813.6**2 / 4_885.6 + 813.6**2 / 1_221.4)
    sound = sample_ratio([8_010, 1_990], [8_000, 2_000], looks)
    assert not sound.is_mismatched
    assert sound.chi_squared_p_value == pytest.approx(0.80259, abs=1e-5)


def test_no_unit_is_no_mismatch_and_one_neither() -> None:
    assert sample_ratio([0, 0], [1, 1], Looks.FIXED).p_value is None
    assert not sample_ratio([1, 0], [1, 1], Looks.SEQUENTIAL).is_mismatched
    assert sample_ratio([300, 0], [1, 1], Looks.SEQUENTIAL).is_mismatched


def test_the_evidence_is_that_of_predicting_unit_by_unit() -> None:
    seen = [600.0, 250.0, 150.0]
    evidence, counts = 0.0, [0, 0, 0]
    chance = Random(2)
    for _ in range(800):
        arm = chance.choices(range(3), [0.5, 0.3, 0.2])[0]
        before = 1_000 * (0.6, 0.25, 0.15)[arm] + counts[arm]
        evidence += log(before / (1_000 + sum(counts))) - log((0.6, 0.25, 0.15)[arm])
        counts[arm] += 1
    found = sample_ratio(counts, seen, Looks.SEQUENTIAL)
    assert found.p_value is not None
    assert -log(found.p_value) == pytest.approx(evidence, rel=1e-9)


def test_the_example_of_benjamini_and_hochberg_has_four_discoveries() -> None:
    p_values = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    ]
    adjusted = adjust_p_values(p_values)
    assert sum(p is not None and p <= 0.05 for p in adjusted) == 4
    assert adjusted[:3] == (pytest.approx(0.0015), pytest.approx(0.003), pytest.approx(0.0095))
    assert adjusted[-1] == 1.0


def test_what_was_not_tested_counts_for_nothing() -> None:
    assert adjust_p_values([0.04, None, 0.03]) == (0.04, None, 0.04)
    assert adjust_p_values([None]) == (None,)
    assert adjust_p_values([]) == ()

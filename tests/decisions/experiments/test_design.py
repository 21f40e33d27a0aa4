"""Designs that can't be read, and why."""

from dataclasses import replace

import pytest

from controlplane.decisions.experiments.design import Arm, Design, design_problems
from controlplane.decisions.experiments.looks import Looks
from tests.decisions.experiments.readings import COST, ERRORS, HALVES, design

SOUND = design(COST, ERRORS)


def test_a_sound_design_has_no_problem() -> None:
    assert design_problems(SOUND) == ()
    assert SOUND.primary is COST
    assert SOUND.guardrails == (ERRORS,)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(SOUND, arms=HALVES[:1]), "at least one other variant"),
        (replace(SOUND, arms=(HALVES[0], HALVES[0])), "the same"),
        (replace(SOUND, arms=(HALVES[0], Arm("b", 0))), "share above 0"),
        (replace(SOUND, metrics=(ERRORS,)), "One metric is the primary"),
        (replace(SOUND, metrics=(COST, ERRORS, ERRORS)), "there twice"),
        (replace(SOUND, alpha=0.0), "level"),
        (replace(SOUND, power=1.0), "power"),
        (replace(SOUND, minimum_effect=0.0), "smallest effect"),
        (replace(SOUND, minimum_units=1), "two units"),
        (replace(SOUND, planned_units=0), "planned size"),
        (replace(SOUND, looks=Looks.FIXED), "needs its planned size"),
        (replace(SOUND, metrics=(COST, replace(ERRORS, margin=-0.1))), "not below 0"),
        (replace(SOUND, metrics=(COST, replace(ERRORS, margin=1.0))), "a share below 1"),
    ],
)
def test_what_is_wrong_is_said(wrong: Design, words: str) -> None:
    (problem,) = design_problems(wrong)
    assert words in problem

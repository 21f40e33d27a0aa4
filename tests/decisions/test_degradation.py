"""When steps of degradation are taken and given back, and what they do to a request."""

from dataclasses import replace

import pytest

from inference.contract.kinds import DegradationStep, PriorityClass
from inference.decisions.degradation.ladder import GROUND, Ladder, climb, saturation_of
from inference.decisions.degradation.registry import degraded
from inference.decisions.plan import Plan
from tests.decisions.test_queueing import planned

STEPS = tuple(DegradationStep)


def of(priority: PriorityClass, plan: Plan) -> Plan:
    return replace(plan, standing=replace(plan.standing, priority=priority))


BATCH = of(PriorityClass.BATCH, planned("a", "b", output_tokens_requested=2_000, answers=2))
DEFAULT = of(PriorityClass.DEFAULT, planned("a", "b"))
INTERACTIVE = of(PriorityClass.INTERACTIVE, planned("a", "b"))


def climbed(*looks: tuple[float, float], ladder: Ladder = GROUND, steps: int = 4) -> list[int]:
    """How many steps are taken after each look: at a time, at a saturation."""
    taken = []
    for now, saturation in looks:
        ladder = climb(ladder, saturation, steps=steps, now=now)
        taken.append(ladder.taken)
    return taken


def test_a_step_is_taken_after_ten_seconds_of_saturation_and_one_at_a_time() -> None:
    assert climbed((0, 0.9), (9.9, 5.0), (10, 0.9), (19, 1.0), (20, 1.0)) == [0, 0, 1, 1, 2]


def test_a_burst_takes_no_step() -> None:
    assert climbed((0, 1.0), (9, 1.0), (9.5, 0.89), (10, 1.0), (19, 1.0)) == [0, 0, 0, 0, 0]


def test_a_step_is_given_back_after_a_minute_of_room_and_one_at_a_time() -> None:
    up = Ladder(2, high_since=0.0)
    assert climbed((0, 0.7), (59, 0.1), (60, 0.7), (119, 0.7), (120, 0.7), ladder=up) == [
        *(2, 2, 1),
        *(1, 0),
    ]


def test_a_lull_gives_nothing_back_and_the_middle_keeps_what_there_is() -> None:
    up = Ladder(1, high_since=0.0)
    assert climbed((0, 0.2), (59, 0.2), (60, 0.8), (61, 0.2), (120, 0.2), ladder=up) == [1] * 5
    assert climbed((0, 0.8), (900, 0.8), ladder=up) == [1, 1]


def test_there_are_as_many_steps_as_the_route_names_even_if_they_become_fewer() -> None:
    assert climbed(*((second, 1.0) for second in range(60)), steps=2)[-1] == 2
    assert climbed((0, 1.0), ladder=Ladder(4), steps=1) == [1]
    assert climbed((0, 1.0), (60, 1.0), steps=0) == [0, 0]


@pytest.mark.parametrize(
    ("busy", "waiting", "slots", "expected"),
    [(4, 0, 8, 0.5), (8, 4, 8, 1.5), (8, 4, None, 0.0), (0, 1, 0, 1.0), (0, 0, 0, 0.0)],
)
def test_saturation_is_what_runs_and_waits_for_each_slot(
    busy: int, waiting: int, slots: int | None, expected: float
) -> None:
    assert saturation_of(busy=busy, waiting=waiting, slots=slots) == expected


def test_batch_answers_are_trimmed_and_nobody_elses() -> None:
    serving = degraded(BATCH, STEPS[:1])
    assert (serving.output_tokens_limit, serving.plan.output_tokens_max) == (512, 1_024)
    assert serving.changed_by == (DegradationStep.TRIM_BATCH,)
    assert degraded(DEFAULT, STEPS[:1]).changed_by == ()
    short = replace(BATCH, facts=replace(BATCH.facts, output_tokens_requested=512))
    assert degraded(short, STEPS[:1]).changed_by == ()


def test_a_smaller_model_is_the_next_tier_if_there_is_one() -> None:
    kind = (DegradationStep.SMALLER_MODEL,)
    serving = degraded(INTERACTIVE, kind)
    assert [one.target.id for one in serving.plan.targets] == ["tgt_b"]
    assert serving.changed_by == kind
    assert degraded(planned("ab"), kind).plan == planned("ab")


def test_batch_is_shed_before_default_and_interactive_never() -> None:
    def shed(steps: int) -> list[bool]:
        return [degraded(one, STEPS[:steps]).is_shed for one in (BATCH, DEFAULT, INTERACTIVE)]

    assert [shed(2), shed(3), shed(4)] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
    ]

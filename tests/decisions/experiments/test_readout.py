"""What an experiment says, whole: from sums to a verdict with its rule."""

from dataclasses import replace
from random import Random

import pytest

from controlplane.decisions.experiments.contrasts import UNBOUNDED
from controlplane.decisions.experiments.design import (
    Arm,
    Better,
    Metric,
    MetricKind,
    Role,
    VariantData,
)
from controlplane.decisions.experiments.guardrails import GuardrailState
from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.quantiles import Counted
from controlplane.decisions.experiments.readout import ReadOut, read_out
from controlplane.decisions.experiments.sums import UnitSums
from controlplane.decisions.experiments.verdicts import Finding, Rule, Verdict
from inference.decisions.histograms import bucket_of
from tests.decisions.experiments.readings import (
    COST,
    ERRORS,
    HALVES,
    arm,
    around,
    design,
    events,
    values,
)


def said(found: ReadOut) -> tuple[Verdict, Rule, str | None]:
    return found.verdict.verdict, found.verdict.rule, found.verdict.arm_id


def test_c142_a_mismatched_sample_ratio_has_no_winner() -> None:
    split = (Arm("a", 8_000), Arm("b", 2_000))
    a, b = around(10, 4_072), around(5, 2_034)
    found = read_out(design(arms=split), [arm("a", 4_072, cost=a), arm("b", 2_035, cost=b)])
    assert said(found) == (Verdict.NOT_ENOUGH_DATA, Rule.SAMPLE_RATIO_MISMATCH, None)
    assert found.sample_ratio.is_mismatched
    assert (found.metrics, found.decisions, found.sensitivities) == ((), (), ())
    a, b = around(10, 8_010), around(5, 1_990)
    sound = read_out(design(arms=split), [arm("a", 8_010, cost=a), arm("b", 1_990, cost=b)])
    assert not sound.sample_ratio.is_mismatched
    assert said(sound) == (Verdict.SHIP, Rule.PRIMARY_BETTER, "b")


def test_c145_phases_are_read_apart_and_together_would_deceive() -> None:
    # b is the dearer one in both phases, and had most of its units in the cheap one
    first = (Arm("a", 8_000), Arm("b", 2_000))
    second = (Arm("a", 2_000), Arm("b", 8_000))
    phases = [
        (first, around(20, 800), around(21, 200)),
        (second, around(10, 200), around(11, 800)),
    ]
    for arms, a, b in phases:
        found = read_out(design(arms=arms), [arm("a", a.n, cost=a), arm("b", b.n, cost=b)])
        assert not found.sample_ratio.is_mismatched
        assert found.verdict.verdict is Verdict.ROLL_BACK
    pooled = [
        arm("a", 1_000, cost=values(*(180, 220) * 400, *(90, 110) * 100)),
        arm("b", 1_000, cost=values(*(189, 231) * 100, *(99, 121) * 400)),
    ]
    assert read_out(design(), pooled).verdict.verdict is Verdict.SHIP


@pytest.mark.slow
def test_c147_peeking_at_experiments_without_a_difference_finds_few_winners() -> None:
    chance, deceived = Random(147), 0
    for _ in range(500):
        sums = {name: UnitSums(0, 0, 0, 0, 0, 0) for name in "ab"}
        for _ in range(28):
            sums = {name: _with_more(one, chance) for name, one in sums.items()}
            found = read_out(design(), [arm(name, one.n, cost=one) for name, one in sums.items()])
            if found.metrics[0].comparisons[0].finding is not Finding.OPEN:
                deceived += 1
                break
    assert deceived <= 25


def _with_more(sums: UnitSums, chance: Random) -> UnitSums:
    units = [chance.expovariate(0.01) for _ in range(20)]
    n, y = sums.n + 20, sums.y + sum(units)
    return UnitSums(n, y, sums.yy + sum(one * one for one in units), n, n, y)


def test_below_the_least_number_of_units_nothing_is_told() -> None:
    found = read_out(
        design(), [arm("a", 41, cost=around(10, 40)), arm("b", 37, cost=values(*[5] * 37))]
    )
    assert said(found) == (Verdict.NOT_ENOUGH_DATA, Rule.TOO_FEW_UNITS, "b")
    assert found.verdict.words == "Not enough data (37/100)."
    (compared,) = found.metrics[0].comparisons
    assert not compared.is_enough
    assert (compared.p_value, compared.absolute_bounds) == (None, UNBOUNDED)


def test_no_unit_and_no_metric_are_not_zero() -> None:
    found = read_out(design(COST, ERRORS), [])
    assert said(found) == (Verdict.NOT_ENOUGH_DATA, Rule.TOO_FEW_UNITS, "b")
    assert found.sample_ratio.p_value is None
    assert [one.control.value for one in found.metrics] == [None, None]
    assert found.sensitivities[0].units_needed is None
    without = read_out(design(), [arm("a", 500), arm("b", 500)])
    assert without.verdict.words == "Not enough data (0/100)."


def test_units_that_are_all_alike_tell_nothing() -> None:
    same = values(*[5] * 500)
    found = read_out(design(), [arm("a", 500, cost=same), arm("b", 500, cost=same)])
    assert said(found) == (Verdict.NOT_ENOUGH_DATA, Rule.NO_VARIANCE, "b")


def test_the_better_one_is_shipped_and_the_worse_is_rolled_back() -> None:
    better = [arm("a", 2_000, cost=around(100, 2_000)), arm("b", 2_000, cost=around(90, 2_000))]
    found = read_out(design(), better)
    assert said(found) == (Verdict.SHIP, Rule.PRIMARY_BETTER, "b")
    (compared,) = found.metrics[0].comparisons
    assert compared.finding is Finding.BETTER
    assert compared.relative == pytest.approx(-0.1)
    assert compared.relative_bounds.excludes(0.0)
    worse = read_out(
        design(), [replace(one, id=name) for one, name in zip(better, "ba", strict=True)]
    )
    assert said(worse) == (Verdict.ROLL_BACK, Rule.PRIMARY_WORSE, "b")
    higher = replace(COST, better=Better.HIGHER)
    assert said(read_out(design(higher), better)) == (Verdict.ROLL_BACK, Rule.PRIMARY_WORSE, "b")


def guarded(errors: int, cost: int = 90, looks: Looks = Looks.SEQUENTIAL) -> ReadOut:
    return read_out(
        design(COST, ERRORS, looks=looks, planned_units=100_000),
        [
            arm("a", 20_000, cost=around(100, 2_000), errors=events(20_000, 2_000)),
            arm("b", 20_000, cost=around(cost, 2_000), errors=events(20_000, errors)),
        ],
    )


def test_a_guardrail_stops_for_harm_by_itself_whatever_the_primary_says() -> None:
    found = guarded(2_800)
    assert said(found) == (Verdict.ROLL_BACK, Rule.GUARDRAIL_HARMED, "b")
    assert (found.verdict.metrics, found.verdict.words) == (
        ("errors",),
        "Worse than allowed: share of failed requests.",
    )
    assert said(guarded(2_800, looks=Looks.FIXED))[1] is Rule.GUARDRAIL_HARMED


def test_harm_is_told_though_nobody_knows_the_primary_yet() -> None:
    few = around(100, 20)
    data = [
        arm("a", 20_000, cost=few, errors=events(20_000, 2_000)),
        arm("b", 20_000, cost=few, errors=events(20_000, 2_800)),
    ]
    assert said(read_out(design(COST, ERRORS), data))[1] is Rule.GUARDRAIL_HARMED


def test_a_better_one_waits_until_its_guardrails_are_sure() -> None:
    assert said(guarded(2_150)) == (Verdict.KEEP_RUNNING, Rule.GUARDRAIL_OPEN, "b")
    found = guarded(1_900)
    assert said(found) == (Verdict.SHIP, Rule.PRIMARY_BETTER, "b")
    state = found.metrics[1].comparisons[0].guarded
    assert state is not None
    assert state.state is GuardrailState.SAFE


def test_a_guardrail_of_a_quantile_in_its_own_unit() -> None:
    first = Metric(
        "first_token_ms",
        MetricKind.QUANTILE,
        Role.GUARDRAIL,
        Better.LOWER,
        fraction=0.5,
        margin=20.0,
        is_margin_absolute=True,
    )

    def state(lift: float) -> GuardrailState:
        data = []
        for name, times in (("a", 1.0), ("b", lift)):
            buckets = {bucket_of(times * (100 + place)): 20 for place in range(0, 100, 8)}
            counted = {"first_token_ms": Counted(buckets)}
            data.append(VariantData(name, 2_000, {"cost": around(100, 2_000)}, counted))
        guarded = read_out(design(COST, first), data).metrics[1].comparisons[0].guarded
        assert guarded is not None
        return guarded.state

    assert state(1.0) is GuardrailState.SAFE
    assert state(1.15) is GuardrailState.OPEN
    assert state(1.5) is GuardrailState.HARMED


def test_a_fixed_horizon_is_not_final_before_its_end() -> None:
    fixed = design(looks=Looks.FIXED, planned_units=4_000)
    early = [arm("a", 1_000, cost=around(100, 1_000)), arm("b", 1_000, cost=around(90, 1_000))]
    found = read_out(fixed, early)
    assert said(found) == (Verdict.KEEP_RUNNING, Rule.HORIZON_AHEAD, "b")
    assert not found.is_final
    assert found.metrics[0].comparisons[0].finding is Finding.OPEN
    late = [arm("a", 2_000, cost=around(100, 2_000)), arm("b", 2_000, cost=around(90, 2_000))]
    assert said(read_out(fixed, late)) == (Verdict.SHIP, Rule.PRIMARY_BETTER, "b")


def test_no_effect_ends_a_fixed_horizon_and_goes_on_for_a_sequence() -> None:
    spread = values(*(0, 200) * 250)
    data = [arm("a", 500, cost=spread), arm("b", 500, cost=spread)]
    fixed = design(looks=Looks.FIXED, planned_units=1_000)
    assert said(read_out(fixed, data)) == (Verdict.ROLL_BACK, Rule.NO_EFFECT_SHOWN, "b")
    assert said(read_out(design(), data)) == (Verdict.KEEP_RUNNING, Rule.UNDECIDED, "b")


def test_what_cannot_reach_the_smallest_effect_that_matters_is_rolled_back() -> None:
    same = [arm(name, 20_000, cost=around(100, 20_000)) for name in "ab"]
    assert said(read_out(design(), same)) == (Verdict.ROLL_BACK, Rule.NO_WORTHWHILE_EFFECT, "b")


def test_of_several_the_best_is_shipped_and_each_has_its_own_verdict() -> None:
    arms = (*HALVES, Arm("c", 5_000), Arm("d", 5_000))
    data = [
        arm(name, 2_000, cost=around(cost, 2_000))
        for name, cost in zip("abcd", (100, 95, 90, 120), strict=True)
    ]
    found = read_out(design(arms=arms), data)
    assert said(found) == (Verdict.SHIP, Rule.PRIMARY_BETTER, "c")
    assert [one.verdict for one in found.decisions] == [
        Verdict.SHIP,
        Verdict.SHIP,
        Verdict.ROLL_BACK,
    ]
    assert found.metrics[0].level == pytest.approx(1 - 0.05 / 3)
    none = [
        replace(one, sums={"cost": around(100 + 10 * place, 2_000)})
        for place, one in enumerate(data)
    ]
    assert said(read_out(design(arms=arms), none)) == (Verdict.ROLL_BACK, Rule.PRIMARY_WORSE, None)


def test_secondary_metrics_are_corrected_together() -> None:
    names = [f"other{place}" for place in range(20)]
    others = [Metric(name, MetricKind.MEAN, Role.SECONDARY, Better.LOWER) for name in names]
    lifts = dict(zip(names, (0.85, *[1.0] * 19), strict=True))
    sums = {name: around(100, 2_000) for name in names}
    treated = {name: values(*(lift * 900, lift * 1_100) * 1_000) for name, lift in lifts.items()}
    found = read_out(
        design(COST, *others),
        [
            arm("a", 2_000, cost=around(100, 2_000), **sums),
            arm("b", 2_000, cost=around(100, 2_000), **treated),
        ],
    )
    compared = [one.comparisons[0] for one in found.metrics[1:]]
    assert [one.finding for one in compared] == [Finding.BETTER, *[Finding.OPEN] * 19]
    assert compared[0].p_value is not None
    assert compared[0].adjusted_p_value == pytest.approx(20 * compared[0].p_value)
    assert found.metrics[0].comparisons[0].adjusted_p_value is None


def test_units_and_days_that_are_left_follow_from_what_is_known() -> None:
    spread = values(*(50, 150) * 500)
    data = [arm("a", 1_000, cost=spread), arm("b", 1_000, cost=spread)]
    (found,) = read_out(design(), data, units_a_day=500.0).sensitivities
    assert found.smallest_effect == pytest.approx(0.11, abs=0.02)
    assert found.units_needed is not None
    assert found.units_left == found.units_needed - 2_000
    assert found.days_left == pytest.approx(found.units_left / 500)
    (unknown,) = read_out(design(), data).sensitivities
    assert unknown.days_left is None

"""What to do with an experiment, and by which rule: one for each treatment, and one for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.decisions.experiments.design import Metric


class Verdict(StrEnum):
    """What to do."""

    SHIP = "ship"
    ROLL_BACK = "roll_back"
    KEEP_RUNNING = "keep_running"
    NOT_ENOUGH_DATA = "not_enough_data"


class Rule(StrEnum):
    """Why. They are asked in this order; the first that holds decides."""

    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    GUARDRAIL_HARMED = "guardrail_harmed"
    TOO_FEW_UNITS = "too_few_units"
    NO_VARIANCE = "no_variance"
    HORIZON_AHEAD = "horizon_ahead"
    PRIMARY_WORSE = "primary_worse"
    GUARDRAIL_OPEN = "guardrail_open"
    PRIMARY_BETTER = "primary_better"
    NO_WORTHWHILE_EFFECT = "no_worthwhile_effect"
    NO_EFFECT_SHOWN = "no_effect_shown"
    UNDECIDED = "undecided"


_WHAT_TO_DO = {
    Rule.SAMPLE_RATIO_MISMATCH: Verdict.NOT_ENOUGH_DATA,
    Rule.GUARDRAIL_HARMED: Verdict.ROLL_BACK,
    Rule.TOO_FEW_UNITS: Verdict.NOT_ENOUGH_DATA,
    Rule.NO_VARIANCE: Verdict.NOT_ENOUGH_DATA,
    Rule.HORIZON_AHEAD: Verdict.KEEP_RUNNING,
    Rule.PRIMARY_WORSE: Verdict.ROLL_BACK,
    Rule.GUARDRAIL_OPEN: Verdict.KEEP_RUNNING,
    Rule.PRIMARY_BETTER: Verdict.SHIP,
    Rule.NO_WORTHWHILE_EFFECT: Verdict.ROLL_BACK,
    Rule.NO_EFFECT_SHOWN: Verdict.ROLL_BACK,
    Rule.UNDECIDED: Verdict.KEEP_RUNNING,
}


class Finding(StrEnum):
    """What a difference was shown to be."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one treatment.

    `fewest_units` is of control and treatment the smaller number of units that the primary metric
    is known of. `best_case` is the best end of its relative interval, above 0 for better; None is
    unbounded.
    """

    arm_id: str
    fewest_units: int
    minimum_units: int
    primary: Metric
    gain: float | None
    finding: Finding
    is_comparable: bool
    best_case: float | None
    minimum_effect: float
    harmed: tuple[Metric, ...]
    unsafe: tuple[Metric, ...]
    units: int
    final_at: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its rule; `arm_id` is the treatment it is about, None for the experiment.

    `metrics` are the keys of those that decided.
    """

    verdict: Verdict
    rule: Rule
    arm_id: str | None
    metrics: tuple[str, ...]
    words: str


def mismatch(p_value: float) -> Decision:
    """No treatment is judged: units came otherwise than planned."""
    words = (
        f"Units came otherwise than planned (p = {p_value:.2g}): no figure means anything. "
        "Find where they are lost or doubled, then begin a new phase."
    )
    return _decision(Rule.SAMPLE_RATIO_MISMATCH, None, (), words)


def decide(standing: Standing) -> Decision:
    """What to do with one treatment."""
    rule, metrics, words = _first_rule(standing)
    return _decision(rule, standing.arm_id, tuple(metric.key for metric in metrics), words)


def decide_all(decisions: Sequence[Decision], gains: Sequence[float | None]) -> Decision:
    """What to do with the experiment: ship the best that may be, end it if all are out.

    `gains` are the treatments' differences of the primary metric, above 0 for better.
    """
    ready = [
        (gain if gain is not None else 0.0, place)
        for place, (one, gain) in enumerate(zip(decisions, gains, strict=True))
        if one.verdict is Verdict.SHIP
    ]
    if ready:
        return decisions[max(ready, key=lambda one: (one[0], -one[1]))[1]]
    for verdict in (Verdict.KEEP_RUNNING, Verdict.NOT_ENOUGH_DATA):
        for one in decisions:
            if one.verdict is verdict:
                return one
    if len(decisions) == 1:
        return decisions[0]
    metrics = dict.fromkeys(key for one in decisions for key in one.metrics)
    words = "No variant is left to go on with: the control stays."
    return _decision(decisions[0].rule, None, tuple(metrics), words)


def _decision(rule: Rule, arm_id: str | None, metrics: tuple[str, ...], words: str) -> Decision:
    return Decision(_WHAT_TO_DO[rule], rule, arm_id, metrics, words)


_Ruling = tuple[Rule, tuple[Metric, ...], str]


def _first_rule(one: Standing) -> _Ruling:
    primary, name = (one.primary,), one.primary.name
    if one.harmed:
        return Rule.GUARDRAIL_HARMED, one.harmed, f"Worse than allowed: {_names(one.harmed)}."
    if one.fewest_units < one.minimum_units:
        words = f"Not enough data ({one.fewest_units:,}/{one.minimum_units:,})."
        return Rule.TOO_FEW_UNITS, primary, words
    if not one.is_comparable:
        words = f"{name} is the same for all units, or unknown: nothing can be compared."
        return Rule.NO_VARIANCE, primary, words
    if one.final_at is not None and one.units < one.final_at:
        words = f"Not final before {one.final_at:,} units: {one.units:,} have come."
        return Rule.HORIZON_AHEAD, primary, words
    return _by_effect(one)


def _by_effect(one: Standing) -> _Ruling:
    primary, name = (one.primary,), one.primary.name
    if one.finding is Finding.WORSE:
        return Rule.PRIMARY_WORSE, primary, f"{name} is worse than the control's."
    if one.finding is Finding.BETTER and one.unsafe:
        words = f"{name} is better; not yet surely within the margin: {_names(one.unsafe)}."
        return Rule.GUARDRAIL_OPEN, one.unsafe, words
    if one.finding is Finding.BETTER:
        return Rule.PRIMARY_BETTER, primary, f"{name} is better, and no guardrail is in the way."
    if one.best_case is not None and one.best_case < one.minimum_effect:
        words = f"{name} is surely not better by {100 * one.minimum_effect:.3g} % of the control."
        return Rule.NO_WORTHWHILE_EFFECT, primary, words
    if one.final_at is not None:
        words = f"At the planned size no effect on {name} was shown: the control stays."
        return Rule.NO_EFFECT_SHOWN, primary, words
    return Rule.UNDECIDED, primary, f"No difference of {name} is sure yet."


def _names(metrics: Sequence[Metric]) -> str:
    return ", ".join(metric.name for metric in metrics)

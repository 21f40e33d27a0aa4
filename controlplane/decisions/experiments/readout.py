"""All that an experiment says so far, as one value that pages and API show as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.decisions.experiments.comparisons import (
    Comparison,
    Frame,
    MetricReadOut,
    Sensitivity,
    correct_secondary,
    read_metric,
    sensitivity,
)
from controlplane.decisions.experiments.design import Design, Role, VariantData
from controlplane.decisions.experiments.guardrails import GuardrailState
from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.sample_ratio import SampleRatio, sample_ratio
from controlplane.decisions.experiments.verdicts import (
    Decision,
    Standing,
    decide,
    decide_all,
    mismatch,
)


@dataclass(frozen=True, slots=True)
class ReadOut:
    """What is known, and what to do.

    `metrics`, `sensitivities` and `decisions` are empty where the sample ratio is mismatched, for
    then they would mean nothing. `decisions` and `sensitivities` have the treatments in their
    order. `is_final` is false before the end of a fixed horizon.
    """

    verdict: Decision
    sample_ratio: SampleRatio
    units: int
    is_final: bool
    metrics: tuple[MetricReadOut, ...]
    sensitivities: tuple[Sensitivity, ...]
    decisions: tuple[Decision, ...]


def read_out(
    design: Design, variants: Sequence[VariantData], *, units_a_day: float | None = None
) -> ReadOut:
    """Read one phase. The design has no problems (`design_problems`).

    A variant that isn't there had no units. `units_a_day` is what comes to all arms, for the days
    that are left.
    """
    by_id = {variant.id: variant for variant in variants}
    arms = tuple(by_id.get(arm.id, VariantData(arm.id, 0)) for arm in design.arms)
    ratio = sample_ratio(
        [arm.units for arm in arms], [arm.share_bp for arm in design.arms], design.looks
    )
    units = sum(arm.units for arm in arms)
    is_final = design.looks is Looks.SEQUENTIAL or units >= (design.planned_units or 0)
    if ratio.is_mismatched and ratio.p_value is not None:
        return ReadOut(mismatch(ratio.p_value), ratio, units, is_final, (), (), ())
    frame = Frame(design, arms, is_final)
    metrics = correct_secondary(
        [read_metric(frame, metric) for metric in design.metrics], design.alpha, is_final=is_final
    )
    primary = next(one for one in metrics if one.metric.role is Role.PRIMARY)
    standings = [
        _standing(frame, metrics, primary, place) for place in range(len(primary.comparisons))
    ]
    decisions = tuple(decide(one) for one in standings)
    return ReadOut(
        decide_all(decisions, [one.gain for one in standings]),
        ratio,
        units,
        is_final,
        metrics,
        tuple(sensitivity(frame, place + 1, units_a_day) for place in range(len(standings))),
        decisions,
    )


def _standing(
    frame: Frame, metrics: Sequence[MetricReadOut], primary: MetricReadOut, place: int
) -> Standing:
    """What is known of one treatment, for its verdict."""
    design, compared = frame.design, primary.comparisons[place]
    guarded = [
        (one.metric, state.state)
        for one in metrics
        if (state := one.comparisons[place].guarded) is not None
    ]
    return Standing(
        arm_id=compared.arm_id,
        fewest_units=min(primary.control.units, compared.units),
        minimum_units=design.minimum_units,
        primary=primary.metric,
        gain=primary.gain(compared.absolute),
        finding=compared.finding,
        is_comparable=compared.p_value is not None,
        best_case=_best_case(primary, compared),
        minimum_effect=design.minimum_effect,
        harmed=tuple(m for m, state in guarded if state is GuardrailState.HARMED),
        unsafe=tuple(
            m for m, state in guarded if m.margin > 0.0 and state is not GuardrailState.SAFE
        ),
        units=sum(arm.units for arm in frame.arms),
        final_at=design.planned_units if design.looks is Looks.FIXED else None,
    )


def _best_case(primary: MetricReadOut, compared: Comparison) -> float | None:
    bounds = compared.relative_bounds
    return primary.gain(bounds.high if primary.is_higher_better else bounds.low)

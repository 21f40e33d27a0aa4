"""Each metric's treatments against the control, with all that a table of results shows of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.decisions.experiments.contrasts import UNBOUNDED, Bounds, Contrast, Level
from controlplane.decisions.experiments.design import (
    USUAL_PLAN,
    Better,
    Design,
    Metric,
    MetricKind,
    Role,
    VariantData,
)
from controlplane.decisions.experiments.discoveries import adjust_p_values
from controlplane.decisions.experiments.guardrails import UNKNOWN, Guarded, GuardrailState, guard
from controlplane.decisions.experiments.levels import levels, units_of
from controlplane.decisions.experiments.looks import AnyTime, FixedHorizon, Framework, Looks, tuned
from controlplane.decisions.experiments.planning import days_left, smallest_effect, units_needed
from controlplane.decisions.experiments.verdicts import Finding


@dataclass(frozen=True, slots=True)
class ArmLevel:
    """One arm by one metric: the units it is known of, and its value; None if there is none."""

    arm_id: str
    units: int
    value: float | None
    reduction: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A treatment against the control.

    `is_enough` is false below the minimum of units: then nothing but the counts means anything.
    Relative figures are shares of the control's size. `p_value` is against no difference, of a
    sequence valid at any look; `adjusted_p_value` is there for secondary metrics, whose finding
    follows from it. A guardrail's finding follows from `guarded`.
    """

    arm_id: str
    units: int
    value: float | None
    is_enough: bool
    absolute: float | None
    relative: float | None
    absolute_bounds: Bounds
    relative_bounds: Bounds
    p_value: float | None
    adjusted_p_value: float | None
    finding: Finding
    guarded: Guarded | None
    reduction: float | None


@dataclass(frozen=True, slots=True)
class MetricReadOut:
    """One metric: the control, the treatments in their order, and how all was computed.

    `level` is that of the intervals, as a share: a column's header says it with the method.
    """

    metric: Metric
    control: ArmLevel
    comparisons: tuple[Comparison, ...]
    level: float
    method: str
    correction: str

    @property
    def is_higher_better(self) -> bool:
        """Which way is up."""
        return self.metric.better is Better.HIGHER

    def gain(self, difference: float | None) -> float | None:
        """A difference, above 0 for better."""
        if difference is None:
            return None
        return difference if self.is_higher_better else -difference


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What the primary metric can show of a treatment.

    `smallest_effect` would be found now with the design's power, `units_needed` (of control and
    treatment together) find the smallest that matters; None where it can't be told.
    """

    arm_id: str
    smallest_effect: float | None
    units_needed: int | None
    units_left: int | None
    days_left: float | None


@dataclass(frozen=True, slots=True)
class Frame:
    """What all metrics of one read-out share: design, arms in their order, and the horizon."""

    design: Design
    arms: tuple[VariantData, ...]
    is_final: bool

    @property
    def treatments(self) -> int:
        return len(self.arms) - 1

    def share(self, place: int) -> float:
        """The part of all units that comes to the control and one treatment."""
        arms = self.design.arms
        return (arms[0].share_bp + arms[place].share_bp) / sum(arm.share_bp for arm in arms)

    def sequence(self, place: int) -> AnyTime:
        """The confidence sequence of the control and one treatment."""
        planned = self.design.planned_units or USUAL_PLAN
        return tuned(planned * self.share(place), self.design.alpha)

    def framework(self, place: int) -> Framework:
        """What the experiment's own intervals are by."""
        return FixedHorizon() if self.design.looks is Looks.FIXED else self.sequence(place)

    def alpha(self, metric: Metric) -> float:
        """That of a metric's intervals: of the primary it is shared between treatments."""
        is_shared = metric.role is Role.PRIMARY
        return self.design.alpha / (self.treatments if is_shared else 1)

    @property
    def guardrail_alphas(self) -> tuple[float, float]:
        tests = max(len(self.design.guardrails), 1) * self.treatments
        return self.design.alpha / tests, self.design.alpha


def read_metric(frame: Frame, metric: Metric) -> MetricReadOut:
    """Compare every treatment with the control by one metric."""
    known = levels(metric, frame.arms)
    compared = [_compare(frame, metric, known, place) for place in range(1, len(known))]
    return MetricReadOut(
        metric,
        _arm_level(frame, metric, known, 0),
        tuple(compared),
        1.0 - frame.alpha(metric),
        _method(frame, metric),
        _correction(frame, metric),
    )


def correct_secondary(
    metrics: Sequence[MetricReadOut], alpha: float, *, is_final: bool
) -> tuple[MetricReadOut, ...]:
    """Adjust the p-values of all secondary metrics and treatments together; others stay."""
    tests = [
        (place, number)
        for place, one in enumerate(metrics)
        if one.metric.role is Role.SECONDARY
        for number in range(len(one.comparisons))
    ]
    adjusted = adjust_p_values([metrics[a].comparisons[b].p_value for a, b in tests])
    found = [list(one.comparisons) for one in metrics]
    for (place, number), p_value in zip(tests, adjusted, strict=True):
        one = found[place][number]
        is_shown = is_final and p_value is not None and p_value <= alpha
        finding = _finding(metrics[place].metric, one.absolute) if is_shown else Finding.OPEN
        found[place][number] = replace(one, adjusted_p_value=p_value, finding=finding)
    return tuple(
        replace(one, comparisons=tuple(new)) for one, new in zip(metrics, found, strict=True)
    )


def sensitivity(frame: Frame, place: int, units_a_day: float | None) -> Sensitivity:
    """What the primary metric can show of one treatment, now and with more units."""
    design, metric = frame.design, frame.design.primary
    known = levels(metric, frame.arms)
    control, treatment = known[0], known[place]
    units = units_of(metric, frame.arms[0]) + units_of(metric, frame.arms[place])
    spans = Contrast(control, treatment).absolute_bounds(1.0)
    if not control.value or spans.low is None or spans.high is None or units == 0:
        return Sensitivity(frame.arms[place].id, None, None, None, None)
    error, size = (spans.high - spans.low) / 2.0, abs(control.value)
    framework, alpha = frame.framework(place), frame.alpha(metric)
    smallest = smallest_effect(error, framework, units=units, alpha=alpha, power=design.power)
    needed = units_needed(
        error,
        framework,
        units=units,
        effect=design.minimum_effect * size,
        alpha=alpha,
        power=design.power,
    )
    left = None if needed is None else max(needed - units, 0)
    coming = None if units_a_day is None else units_a_day * frame.share(place)
    return Sensitivity(
        frame.arms[place].id,
        smallest / size,
        needed,
        left,
        None if left is None else days_left(left, coming),
    )


def _arm_level(frame: Frame, metric: Metric, known: Sequence[Level], place: int) -> ArmLevel:
    arm = frame.arms[place]
    return ArmLevel(arm.id, units_of(metric, arm), known[place].value, known[place].reduction)


def _compare(frame: Frame, metric: Metric, known: Sequence[Level], place: int) -> Comparison:
    control, treatment = (_arm_level(frame, metric, known, one) for one in (0, place))
    contrast = Contrast(known[0], known[place])
    is_enough = min(control.units, treatment.units) >= frame.design.minimum_units
    plain = Comparison(
        arm_id=treatment.arm_id,
        units=treatment.units,
        value=treatment.value,
        is_enough=is_enough,
        absolute=contrast.absolute,
        relative=contrast.relative,
        absolute_bounds=UNBOUNDED,
        relative_bounds=UNBOUNDED,
        p_value=None,
        adjusted_p_value=None,
        finding=Finding.OPEN,
        guarded=UNKNOWN if metric.role is Role.GUARDRAIL else None,
        reduction=treatment.reduction,
    )
    if not is_enough:
        return plain
    return _tested(
        frame, metric, contrast, plain, units=control.units + treatment.units, place=place
    )


def _tested(
    frame: Frame, metric: Metric, contrast: Contrast, plain: Comparison, *, units: int, place: int
) -> Comparison:
    """The comparison with intervals and tests, by the experiment's framework."""
    framework, alpha = frame.framework(place), frame.alpha(metric)
    degrees, score = contrast.degrees, contrast.score()
    wide = framework.multiplier(alpha, units, degrees)
    p_value = None if score is None else framework.p_value(score, units, degrees)
    guarded, finding = None, Finding.OPEN
    if metric.role is Role.GUARDRAIL:
        looks, alphas = frame.sequence(place), frame.guardrail_alphas
        guarded = guard(metric, contrast, looks=looks, units=units, alphas=alphas)
        if guarded.state is GuardrailState.HARMED:
            finding = Finding.WORSE
    elif metric.role is Role.PRIMARY and frame.is_final and p_value is not None:
        finding = _finding(metric, plain.absolute) if p_value <= alpha else Finding.OPEN
    return replace(
        plain,
        absolute_bounds=contrast.absolute_bounds(wide),
        relative_bounds=contrast.relative_bounds(wide),
        p_value=p_value,
        finding=finding,
        guarded=guarded,
    )


def _finding(metric: Metric, absolute: float | None) -> Finding:
    if not absolute:
        return Finding.OPEN
    is_up = absolute > 0.0
    return Finding.BETTER if is_up == (metric.better is Better.HIGHER) else Finding.WORSE


def _method(frame: Frame, metric: Metric) -> str:
    is_quantile = metric.kind is MetricKind.QUANTILE
    if frame.design.looks is Looks.SEQUENTIAL:
        return f"confidence sequence{' of ranks' if is_quantile else ''}, valid at any look"
    test = "Woodruff's limits of ranks" if is_quantile else "Welch's t"
    return f"{test}, one look at {frame.design.planned_units:,} units"


def _correction(frame: Frame, metric: Metric) -> str:
    if metric.role is Role.SECONDARY:
        return "Benjamini-Hochberg over secondary metrics"
    if metric.role is Role.GUARDRAIL:
        return "Bonferroni over guardrails and variants, for harm"
    return "Bonferroni over variants" if frame.treatments > 1 else "none"

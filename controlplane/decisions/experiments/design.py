"""What an experiment was set out to find, and what came in: the words of its read-out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.quantiles import Counted
from controlplane.decisions.experiments.sums import UnitSums

MINIMUM_UNITS = 100
"""Below so many units a variant nothing is told: intervals lean on averages being normal."""

USUAL_PLAN = 10_000
"""Units that a sequence is tuned to where none were planned."""


class MetricKind(StrEnum):
    """How a metric is averaged."""

    MEAN = "mean"
    """A value a unit."""
    RATE = "rate"
    """Events out of trials: a share of units, or of the requests of all units."""
    RATIO = "ratio"
    """One sum by another, such as cost by request."""
    QUANTILE = "quantile"
    """A quantile of all requests."""


class Role(StrEnum):
    """What a metric is there for."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    GUARDRAIL = "guardrail"


class Better(StrEnum):
    """Which way is up."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the design.

    `fraction` is the quantile's, such as 0.95. `margin` is how much worse a guardrail may get, as a
    share of the control or, if `is_margin_absolute`, in the metric's own unit. `label` is what
    verdicts call it; without one it is called by its key.
    """

    key: str
    kind: MetricKind
    role: Role
    better: Better
    fraction: float | None = None
    margin: float = 0.0
    is_margin_absolute: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.label or self.key


@dataclass(frozen=True, slots=True)
class Arm:
    """A variant and its part of the experiment's units, in parts of 10,000."""

    id: str
    share_bp: int


@dataclass(frozen=True, slots=True)
class Design:
    """How an experiment is read; the first arm is the control.

    `minimum_effect` is the smallest change of the primary metric that matters, as a share of the
    control. `planned_units` are those of all arms together.
    """

    arms: tuple[Arm, ...]
    metrics: tuple[Metric, ...]
    looks: Looks = Looks.SEQUENTIAL
    alpha: float = 0.05
    power: float = 0.8
    minimum_effect: float = 0.05
    minimum_units: int = MINIMUM_UNITS
    planned_units: int | None = None

    @property
    def primary(self) -> Metric:
        """The one that decides."""
        return next(metric for metric in self.metrics if metric.role is Role.PRIMARY)

    @property
    def guardrails(self) -> tuple[Metric, ...]:
        """Those that must not get worse."""
        return tuple(metric for metric in self.metrics if metric.role is Role.GUARDRAIL)


@dataclass(frozen=True, slots=True)
class VariantData:
    """What came in of one arm in one phase: its exposed units, and each metric by its key.

    A metric that nobody has a value of is left out; that is not a sum of 0.
    """

    id: str
    units: int
    sums: Mapping[str, UnitSums] = field(default_factory=dict)
    counted: Mapping[str, Counted] = field(default_factory=dict)


def design_problems(design: Design) -> tuple[str, ...]:
    """Why an experiment can't be read as designed, in words; empty if it can."""
    keys = [metric.key for metric in design.metrics]
    found = [
        (len(design.arms) < 2, "An experiment has a control and at least one other variant."),
        (len({arm.id for arm in design.arms}) < len(design.arms), "Two variants are the same."),
        (any(arm.share_bp <= 0 for arm in design.arms), "Each variant has a share above 0."),
        (sum(m.role is Role.PRIMARY for m in design.metrics) != 1, "One metric is the primary."),
        (len(set(keys)) < len(keys), "A metric is there twice."),
        (not 0.0 < design.alpha < 0.5, "The level is between 50 % and 100 %."),
        (not 0.5 < design.power < 1.0, "The power is between 50 % and 100 %."),
        (design.minimum_effect <= 0.0, "The smallest effect that matters is above 0."),
        (design.minimum_units < 2, "At least two units a variant tell something."),
        (
            design.planned_units is not None and design.planned_units <= 0,
            "The planned size is above 0.",
        ),
        (
            design.looks is Looks.FIXED and design.planned_units is None,
            "A fixed horizon needs its planned size.",
        ),
    ]
    problems = [words for is_wrong, words in found if is_wrong]
    return (*problems, *(words for metric in design.metrics for words in _metric_problems(metric)))


def _metric_problems(metric: Metric) -> list[str]:
    is_quantile = metric.kind is MetricKind.QUANTILE
    has_fraction = metric.fraction is not None and 0.0 < metric.fraction < 1.0
    found = [
        (is_quantile and not has_fraction, f"{metric.key} needs its quantile, between 0 and 1."),
        (metric.margin < 0.0, f"The margin of {metric.key} is not below 0."),
        (
            not metric.is_margin_absolute and metric.margin >= 1.0,
            f"The margin of {metric.key} is a share below 1.",
        ),
    ]
    return [words for is_wrong, words in found if is_wrong]

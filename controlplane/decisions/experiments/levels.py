"""What is known of each variant by one metric, whatever its kind."""

from collections.abc import Sequence

from controlplane.decisions.experiments.contrasts import Level
from controlplane.decisions.experiments.design import Metric, MetricKind, VariantData
from controlplane.decisions.experiments.quantiles import Counted, Quantile
from controlplane.decisions.experiments.sums import NO_UNITS, adjust

_NOTHING = Counted({})


def levels(metric: Metric, variants: Sequence[VariantData]) -> tuple[Level, ...]:
    """The variants in their order; means are less what the past of their units explains."""
    if metric.kind is MetricKind.QUANTILE:
        fraction = metric.fraction or 0.5
        counted = (variant.counted.get(metric.key, _NOTHING) for variant in variants)
        return tuple(Quantile(one, fraction) for one in counted)
    sums = tuple(variant.sums.get(metric.key, NO_UNITS) for variant in variants)
    return adjust(sums, is_rate=metric.kind is MetricKind.RATE)


def units_of(metric: Metric, variant: VariantData) -> int:
    """How many units of a variant the metric is known of; of a quantile at most so many."""
    if metric.kind is MetricKind.QUANTILE:
        counted = variant.counted.get(metric.key, _NOTHING)
        return min(variant.units, sum(counted.buckets.values()))
    return variant.sums.get(metric.key, NO_UNITS).n

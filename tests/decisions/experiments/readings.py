"""Designs and data of experiments, for tests."""

from collections.abc import Sequence

from controlplane.decisions.experiments.design import (
    Arm,
    Better,
    Design,
    Metric,
    MetricKind,
    Role,
    VariantData,
)
from controlplane.decisions.experiments.sums import Number, UnitSums, sum_units

COST = Metric("cost", MetricKind.MEAN, Role.PRIMARY, Better.LOWER)
ERRORS = Metric(
    "errors",
    MetricKind.RATE,
    Role.GUARDRAIL,
    Better.LOWER,
    margin=0.1,
    label="share of failed requests",
)
HALVES = (Arm("a", 5_000), Arm("b", 5_000))


def values(*units: Number) -> UnitSums:
    return sum_units((unit, 1, 0) for unit in units)


def around(mean: int, n: int) -> UnitSums:
    """So many units a tenth below and above a mean."""
    return values(*(mean * 9, mean * 11) * (n // 2))


def events(n: int, happened: int) -> UnitSums:
    """So many of n units had an event."""
    return UnitSums(n, happened, happened, n, n, happened)


def design(*metrics: Metric, arms: Sequence[Arm] = HALVES, **others: object) -> Design:
    return Design(tuple(arms), metrics or (COST,), **others)  # type: ignore[arg-type]


def arm(name: str, units: int, **sums: UnitSums) -> VariantData:
    return VariantData(name, units, sums)

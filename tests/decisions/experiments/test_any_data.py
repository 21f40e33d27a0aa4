"""Whatever comes in, a read-out comes out that can be written down."""

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from controlplane.decisions.experiments.design import (
    Arm,
    Better,
    Metric,
    MetricKind,
    Role,
    VariantData,
)
from controlplane.decisions.experiments.looks import Looks
from controlplane.decisions.experiments.quantiles import Counted
from controlplane.decisions.experiments.readout import read_out
from controlplane.decisions.experiments.sums import sum_units
from controlplane.decisions.experiments.verdicts import Verdict
from tests.decisions.experiments.readings import design

METRICS = (
    Metric("cost", MetricKind.MEAN, Role.PRIMARY, Better.LOWER),
    Metric("ratio", MetricKind.RATIO, Role.SECONDARY, Better.HIGHER),
    Metric("errors", MetricKind.RATE, Role.GUARDRAIL, Better.LOWER, margin=0.05),
    Metric("p95", MetricKind.QUANTILE, Role.GUARDRAIL, Better.LOWER, fraction=0.95, margin=0.1),
    Metric("other", MetricKind.MEAN, Role.GUARDRAIL, Better.HIGHER, margin=0.1),
)

NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 10**18, -(10**18), 0.1]), st.floats(-1e12, 1e12), st.integers(0, 9)
)
UNITS = st.lists(st.tuples(NUMBERS, st.integers(0, 50), NUMBERS), max_size=12)
BUCKETS = st.dictionaries(st.integers(-60, 300), st.integers(0, 10**9), max_size=6)


@st.composite
def variants(draw: st.DrawFn, name: str) -> VariantData:
    sums = {}
    for key in ("cost", "ratio", "errors", "other"):
        units = draw(UNITS)
        if key == "errors":
            units = [(size // 3, size, past) for _, size, past in units]
        elif key != "ratio":
            units = [(value, 1, past) for value, _, past in units]
        if draw(st.booleans()):
            sums[key] = sum_units(units)
    counted = {"p95": Counted(draw(BUCKETS), draw(st.floats(1.0, 100.0)))}
    return VariantData(name, draw(st.integers(0, 30)), sums, counted)


@given(
    data=st.tuples(*(variants(name) for name in "abc")),
    looks=st.sampled_from(Looks),
    alpha=st.sampled_from([0.001, 0.05, 0.4]),
    units_a_day=st.sampled_from([None, 0.0, 1e-9, 100.0]),
)
def test_a_read_out_has_no_infinite_number_and_always_a_verdict(
    data: tuple[VariantData, ...], looks: Looks, alpha: float, units_a_day: float | None
) -> None:
    arms = tuple(Arm(name, 5_000) for name in "abc")
    asked = design(*METRICS, arms=arms, looks=looks, alpha=alpha, minimum_units=2, planned_units=20)
    found = read_out(asked, data, units_a_day=units_a_day)
    assert found.verdict.verdict in Verdict
    json.dumps(asdict(found), allow_nan=False)
    for metric in found.metrics:
        for one in metric.comparisons:
            assert one.p_value is None or 0.0 <= one.p_value <= 1.0
            bounds = one.absolute_bounds
            if bounds.low is not None and bounds.high is not None and one.absolute is not None:
                assert bounds.low <= one.absolute <= bounds.high
